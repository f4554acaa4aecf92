// Greets whom standard input names.
package main

import (
	"io"
	"os"
)

func main() {
	name, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = os.Stdout.WriteString("Hello, " + string(name) + "!")
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
}
