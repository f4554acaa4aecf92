// Greets whom its payload names.
package main

import (
	"context"
	"log/slog"

	"leasehold"
)

type greeting struct{ Name string }

func greet(ctx context.Context, run *leasehold.Run, in greeting) (string, error) {
	slog.Info("greeting", "name", in.Name, "attempt", run.Attempt)
	if err := ctx.Err(); err != nil { // before every side effect
		return "", err
	}
	return "Hello, " + in.Name + "!", nil
}

func init() { leasehold.Handle(greet) }
func main() {}
