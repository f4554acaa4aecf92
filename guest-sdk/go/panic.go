package leasehold

import (
	"fmt"
	"runtime"
	"strings"

	"leasehold/internal/host"
)

// What is kept of a stack, in bytes: as much as the host keeps of a detail.
const maxStack = 1000

// panicked is what the host is told of a panic that the handler did not recover from. Call it where it was recovered.
func panicked(value any) *host.Failed {
	failed := &host.Failed{Kind: host.Permanent, Code: "panic", Message: fmt.Sprint(value)}
	if stack := stackOfPanic(); stack != "" {
		failed.Details = []host.Field{{Key: "stack", Value: stack}}
	}
	return failed
}

// stackOfPanic has a line for each function between the panic and this package, the innermost first.
func stackOfPanic() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var stack strings.Builder
	hasBegun := false
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			// Of panics in deferred functions, the first has the reason.
			stack.Reset()
			hasBegun = true
			continue
		case !hasBegun || stack.Len() == 0 && strings.HasPrefix(frame.Function, "runtime."):
			continue
		case strings.HasPrefix(frame.Function, "leasehold.Call[") || frame.Function == "leasehold.finish":
			return strings.TrimSuffix(stack.String(), "\n")
		}
		line := fmt.Sprintf("%s (%s:%d)\n", frame.Function, frame.File, frame.Line)
		if stack.Len()+len(line) > maxStack {
			break
		}
		stack.WriteString(line)
	}
	return strings.TrimSuffix(stack.String(), "\n")
}
