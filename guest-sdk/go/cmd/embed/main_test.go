package main

import (
	"bytes"
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
