package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/internal/host"
)

func TestEveryErrorHasAWayToTheHost(t *testing.T) {
	own := Permanent("bad-port", errors.New("no such port")).With("port", 70000)
	for _, of := range []struct {
		err  error
		kind host.Kind
		code string
	}{
		{own, host.Permanent, "bad-port"},
		{fmt.Errorf("around it: %w", own), host.Permanent, "bad-port"},
		{errors.New("whatever"), host.Retryable, "error"},
		{ErrCancelled, host.Cancelled, ""},
		{&StopError{Reason: "lost"}, host.Cancelled, ""},
		{context.Canceled, host.Cancelled, ""},
		{&StorageError{Case: "lost"}, host.Cancelled, ""},
		{&StorageError{Case: "unavailable"}, host.Retryable, "storage-unavailable"},
		{&StorageError{Case: "over-quota"}, host.Permanent, "storage-over-quota"},
		{&HTTPError{Case: "lost"}, host.Cancelled, ""},
		{&HTTPError{Case: "uncertain"}, host.Retryable, "http-uncertain"},
		{&HTTPError{Case: "denied"}, host.Permanent, "http-denied"},
		{&HTTPError{Case: "other", Reason: "x"}, host.Retryable, "http"},
	} {
		if got := failed(of.err); got.Kind != of.kind || got.Code != of.code {
			t.Errorf("%v: %+v", of.err, got)
		}
	}
	if got := failed(own); got.Message != "no such port" || len(got.Details) != 1 || got.Details[0].Value != "70000" {
		t.Errorf("%+v", got)
	}
}

func TestAWaitIsNeverShorterThanAsked(t *testing.T) {
	for d, want := range map[time.Duration]uint64{-1: 0, 0: 0, 1: 1, 20 * time.Millisecond: 20, 1<<63 - 1: maxMS + 1} {
		if got := millis(d); got != want {
			t.Errorf("%v: %d, not %d", d, got, want)
		}
	}
}

func TestAPanicIsToldByItsTextAndItsStack(t *testing.T) {
	crash := func(of string) func(context.Context, *Run, []byte) ([]byte, error) {
		return func(context.Context, *Run, []byte) ([]byte, error) {
			if of == "" {
				return nil, errors.New([]string{}[len(of)])
			}
			defer func() { panic(fmt.Sprint("again: ", recover())) }()
			panic(errors.New(of))
		}
	}
	for of, want := range map[string]string{
		"crash on purpose": "again: crash on purpose",
		"":                 "runtime error: index out of range [0] with length 0",
	} {
		handler := func(ctx context.Context, run *Run, payload []byte) ([]byte, error) {
			return Call(ctx, run, payload, crash(of))
		}
		_, got := finish(nil, host.Run{}, nil, handler)
		if got == nil || got.Kind != host.Permanent || got.Code != "panic" || got.Message != want || len(got.Details) != 1 {
			t.Fatalf("%+v", got)
		}
		stack := got.Details[0].Value
		first, _, _ := strings.Cut(stack, "\n")
		if !strings.Contains(first, "TestAPanicIsTold") || !strings.Contains(first, "failed_test.go:") || len(stack) > 1024 {
			t.Errorf("%s", stack)
		}
		if strings.Contains(stack, "leasehold.Call[") || strings.Contains(stack, "runtime.") {
			t.Errorf("%s", stack)
		}
	}
}
