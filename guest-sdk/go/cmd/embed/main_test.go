package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const magic = "\x00asm\x01\x00\x00\x00"

func TestTheWorldIsPutBehindAModuleThatHasAHandler(t *testing.T) {
	module := []byte(magic + "… leasehold.export …")
	embedded, err := embed(module)
	if err != nil || !bytes.HasPrefix(embedded, module) || !bytes.HasSuffix(embedded, world) {
		t.Errorf("%d bytes, %v", len(embedded), err)
	}
}

func TestWhatIsNoPluginIsRefused(t *testing.T) {
	for module, want := range map[string]string{magic + "… leasehold.Run …": "no handler", "MZ": "no core module"} {
		if _, err := embed([]byte(module)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", module, err)
		}
	}
}

func TestAHandlerThatWouldBeMissedAtTheFirstRunIsRefused(t *testing.T) {
	for source, want := range map[string]string{
		`func init() { leasehold.Handle(greet) }`:                                                    "",
		`func init() { if fast { leasehold.Handle(greet) } else { leasehold.Handle(greetSlowly) } }`: "",
		`func init() { other.Handle(nil) }
func main() { other.Handle(nil) }`: "",
		`func main() { leasehold.Handle(greet) }`:                                  "main.go:3:15: leasehold.Handle is called in main",
		`func main() { if true { leasehold.Handle[int, int](greet) } }`:            "is called in main",
		`func init() { leasehold.Handle[int, int](nil) }`:                          "is called with nil",
		`func init() { leasehold.Handle(a) }; func init() { leasehold.Handle(b) }`: "is called again, after ",
	} {
		folder := t.TempDir()
		program := "package main\n" + `import "leasehold"` + "\n" + source
		if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		// Not for WebAssembly, and so no second call.
		native := "//go:build linux\n\n" + "package main\n" + `import "leasehold"` + "\nfunc init() { leasehold.Handle(greet) }"
		if err := os.WriteFile(filepath.Join(folder, "native.go"), []byte(native), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkCalls(folder)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
