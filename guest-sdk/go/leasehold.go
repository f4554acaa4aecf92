// Package leasehold is for writing a Leasehold job handler in Go: a function from a run and its payload to an output.
//
//	package main
//
//	import (
//		"context"
//		"log/slog"
//
//		"leasehold"
//	)
//
//	type Greeting struct{ Name string }
//	type Reply struct{ Text string }
//
//	func greet(ctx context.Context, run *leasehold.Run, in Greeting) (Reply, error) {
//		slog.Info("greeting", "name", in.Name, "attempt", run.Attempt)
//		if err := ctx.Err(); err != nil { // before every side effect
//			return Reply{}, err
//		}
//		return Reply{Text: "Hello, " + in.Name + "!"}, nil
//	}
//
//	func init() { leasehold.Handle(greet) }
//	func main() {}
//
// A plugin is a reactor: Go runs its init functions and never main. README.md says how it is built.
//
// # Payloads
//
// Input and output are JSON by encoding/json. An empty payload reads as null, so it leaves the input at its zero value.
// A payload that does not fit ends the run as a permanent error with the code bad-input. Take or return []byte for
// payloads as they are.
//
// # Stopping
//
// A run that has lost its lease must not go on: another host may have started it. The context is cancelled then, and
// [context.Cause] is a [*StopError] that says why. Ask ctx.Err() before each side effect and in every long loop – of the
// handler's own context: it asks the host, while one derived from it is told only when the handler waits. Wait with
// [Run.Sleep], which ends early.
//
// # Panics
//
// A handler that panics fails for good, with the code panic, the panic's text and its stack. A panic in another goroutine
// ends the program, as always in Go: the run fails with the code trap and the panic's text, and its goroutines are in the
// run's log.
package leasehold

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"leasehold/internal/host"
)

// Handle makes a function the handler that this plugin exports. Call it once, in an init function of package main. It
// panics when it is called twice, or with nil.
//
// Natively it does nothing else but check the function's shape, so that a plugin's tests run there.
func Handle[I, O any](handler func(ctx context.Context, run *Run, input I) (O, error)) {
	if handler == nil {
		panic("leasehold.Handle was called with nil: it takes the handler")
	}
	if registered {
		panic("leasehold.Handle was called twice: a plugin has one handler")
	}
	registered = true
	export(func(ctx context.Context, run *Run, payload []byte) ([]byte, error) {
		return Call(ctx, run, payload, handler)
	})
}

// Whether there is a handler.
var registered bool

// Call calls a handler as the host does, with a payload of bytes; for tests, and for handlers that choose among others.
func Call[I, O any](
	ctx context.Context, run *Run, payload []byte, handler func(context.Context, *Run, I) (O, error),
) ([]byte, error) {
	var input I
	if err := read(payload, &input); err != nil {
		return nil, Permanent("bad-input", fmt.Errorf("the payload does not fit this handler: %w", err))
	}
	output, err := handler(ctx, run, input)
	if err != nil {
		return nil, err
	}
	data, err := write(output)
	if err != nil {
		return nil, Permanent("bad-output", fmt.Errorf("the output is not JSON: %w", err))
	}
	return data, nil
}

func read(payload []byte, into any) error {
	if raw, ok := into.(*[]byte); ok {
		*raw = payload
		return nil
	}
	// An on-demand run without a payload has an empty one.
	if len(payload) == 0 {
		payload = []byte("null")
	}
	return json.Unmarshal(payload, into)
}

func write(output any) ([]byte, error) {
	if raw, ok := output.([]byte); ok {
		return raw, nil
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(output); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(data.Bytes(), []byte("\n")), nil
}

// finish is the whole way of one attempt, from the host's call to the host's answer.
func finish(h host.Host, info host.Run, payload []byte, handler untyped) (answer []byte, failure *host.Failed) {
	ctx, run, end := begin(h, info)
	defer end()
	defer func() {
		if value := recover(); value != nil {
			answer, failure = nil, panicked(value)
		}
	}()
	output, err := handler(ctx, run, payload)
	if err != nil {
		return nil, failed(err)
	}
	return output, nil
}

type untyped func(ctx context.Context, run *Run, payload []byte) ([]byte, error)
