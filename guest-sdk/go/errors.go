package leasehold

import (
	"context"
	"errors"
	"fmt"

	"leasehold/internal/host"
)

// Kind is what the host is asked to do with a failed run.
type Kind = host.Kind

const (
	// KindRetryable: worth another try. Recorded as a hint: only dead runners are retried, a failure is final.
	KindRetryable = host.Retryable
	// KindPermanent: never try this run again.
	KindPermanent = host.Permanent
)

// Error is a failed run, as the host records it: whether another try is worth it, a short code, a message and details.
//
// A handler may return any error: one that has no Error in its chain becomes retryable with the code "error", or what
// [StopError], [StorageError] and [HTTPError] say of themselves.
type Error struct {
	Kind Kind
	// Code is short and stable, for people who count errors: "upstream-timeout". The host keeps at most 64 bytes of it.
	Code string
	// Err says what went wrong. The host keeps at most 8 KiB of its text.
	Err error
	// Details are kept with the run, at most 32 of 1 KiB, in the order of their addition.
	details []host.Field
}

// Retryable is something that may go better next time, such as an upstream that did not answer.
func Retryable(code string, err error) *Error {
	return &Error{Kind: KindRetryable, Code: code, Err: err}
}

// Permanent is something that fails the same way every time, such as a payload that makes no sense.
func Permanent(code string, err error) *Error {
	return &Error{Kind: KindPermanent, Code: code, Err: err}
}

// ErrCancelled is what a handler returns that saw that it must stop, and stopped. ctx.Err() and what Run.Sleep returns
// do as well.
var ErrCancelled = fmt.Errorf("the run was asked to stop: %w", context.Canceled)

// With adds a detail that is kept with the run.
func (e *Error) With(key string, value any) *Error {
	e.details = append(e.details, host.Field{Key: key, Value: fmt.Sprint(value)})
	return e
}

// Details are what With has added: pairs of key and value.
func (e *Error) Details() [][2]string {
	details := make([][2]string, len(e.details))
	for i, field := range e.details {
		details[i] = [2]string{field.Key, field.Value}
	}
	return details
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Code
	}
	return e.Code + ": " + e.Err.Error()
}

// Unwrap is Err.
func (e *Error) Unwrap() error { return e.Err }

// StorageError is why the host did not keep or find something. Get it by errors.As.
type StorageError struct {
	// Case is the contract's word: "lost" (this attempt has lost the run; nothing was written), "too-large", "over-quota"
	// (the tenant would keep too much), "unavailable" (the store does not answer) or "other".
	Case string
	// Reason says more, for "unavailable" and "other".
	Reason string
	// Limit in bytes, for "too-large" and "over-quota".
	Limit uint64
}

func (e *StorageError) Error() string {
	switch e.Case {
	case "lost":
		return "this attempt has lost its run"
	case "too-large":
		return fmt.Sprintf("it is larger than the %d bytes allowed", e.Limit)
	case "over-quota":
		return fmt.Sprintf("the tenant would keep more than the %d bytes it may", e.Limit)
	case "unavailable":
		return "the store is unavailable: " + e.Reason
	default:
		return e.Reason
	}
}

// HTTPError is why there is no response. Get it by errors.As, also from what net/http's client returns.
type HTTPError struct {
	// Case is the contract's word: "lost" (this attempt has lost the run, or may have; nothing was sent), "uncertain" (it
	// was sent, and then the lease came into doubt before an answer: it may or may not have had its effect), "denied" (the
	// origin is not granted), "invalid", "unreachable", "timeout", "too-large" or "other".
	Case string
	// Reason says more, for "denied", "invalid", "unreachable" and "other".
	Reason string
	// Limit in bytes, for "too-large".
	Limit uint64
}

func (e *HTTPError) Error() string {
	switch e.Case {
	case "lost":
		return "this attempt has lost its run; nothing was sent"
	case "uncertain":
		return "the lease came into doubt before an answer: it may or may not have had its effect"
	case "timeout":
		return "no whole response in time"
	case "too-large":
		return fmt.Sprintf("larger than the %d bytes allowed", e.Limit)
	case "denied", "invalid", "unreachable":
		return e.Case + ": " + e.Reason
	default:
		return e.Reason
	}
}

// Timeout makes it one of net's timeouts.
func (e *HTTPError) Timeout() bool { return e.Case == "timeout" }

// failed is what the host is told of an error.
func failed(err error) *host.Failed {
	var own *Error
	var storage *StorageError
	var http *HTTPError
	switch {
	case errors.As(err, &own):
		message := err.Error()
		if err == error(own) && own.Err != nil {
			// Its code is told by itself.
			message = own.Err.Error()
		}
		return &host.Failed{Kind: own.Kind, Code: own.Code, Message: message, Details: own.details}
	case errors.As(err, &storage):
		return failedStorage(storage, err)
	case errors.As(err, &http):
		return failedHTTP(http, err)
	case errors.Is(err, context.Canceled):
		return &host.Failed{Kind: host.Cancelled}
	default:
		return &host.Failed{Kind: host.Retryable, Code: "error", Message: err.Error()}
	}
}

func failedStorage(of *StorageError, err error) *host.Failed {
	switch of.Case {
	case "lost":
		return &host.Failed{Kind: host.Cancelled}
	case "unavailable":
		return &host.Failed{Kind: host.Retryable, Code: "storage-unavailable", Message: err.Error()}
	case "too-large", "over-quota":
		return &host.Failed{Kind: host.Permanent, Code: "storage-" + of.Case, Message: err.Error()}
	default:
		return &host.Failed{Kind: host.Permanent, Code: "storage", Message: err.Error()}
	}
}

func failedHTTP(of *HTTPError, err error) *host.Failed {
	switch of.Case {
	case "lost":
		return &host.Failed{Kind: host.Cancelled}
	case "uncertain", "unreachable", "timeout":
		return &host.Failed{Kind: host.Retryable, Code: "http-" + of.Case, Message: err.Error()}
	case "denied", "invalid", "too-large":
		return &host.Failed{Kind: host.Permanent, Code: "http-" + of.Case, Message: err.Error()}
	default:
		return &host.Failed{Kind: host.Retryable, Code: "http", Message: err.Error()}
	}
}
