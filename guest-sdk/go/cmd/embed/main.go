// Command embed writes into a core module of WebAssembly which component it is to become, so that the host can make it
// one:
//
//	go run leasehold/cmd/embed out/core.wasm plugin.wasm
//
// It runs in the folder of the plugin's package main and refuses one whose handler could not be found at its first run.
// What it writes is the world of the contract, as a custom section whose name and form wit-component knows.
package main

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
)

// What the world `job` of wit/ is, encoded as wit-component reads it; made by scripts/bindings.
//
//go:embed component-type.bin
var world []byte

const section = "component-type:leasehold"

// What [leasehold.Handle] calls.
const exporter = "leasehold.export"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: embed CORE.wasm PLUGIN.wasm")
		os.Exit(2)
	}
	err := checkCalls(".")
	if err == nil {
		err = run(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	module, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	embedded, err := embed(module)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	// Whole at once, as a host may be watching the folder.
	beside := to + ".tmp"
	if err := os.WriteFile(beside, embedded, 0o644); err != nil {
		return err
	}
	return os.Rename(beside, to)
}

func embed(module []byte) ([]byte, error) {
	if !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, fmt.Errorf("this is no core module of WebAssembly")
	}
	// Functions that nothing calls are not in it, nor in its section of names.
	if !bytes.Contains(module, []byte(exporter)) {
		return nil, fmt.Errorf("the plugin has no handler: func init() { leasehold.Handle(…) } is missing in package main")
	}
	content := binary.AppendUvarint(nil, uint64(len(section)))
	content = append(content, section...)
	content = append(content, world...)
	const custom = 0
	module = append(module, custom)
	module = binary.AppendUvarint(module, uint64(len(content)))
	return append(module, content...), nil
}
