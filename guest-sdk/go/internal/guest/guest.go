//go:build wasip1

// Package guest is the real host, over the generated bindings.
package guest

import (
	"strings"

	"leasehold/internal/bindings/imports/leasehold_job_config"
	"leasehold/internal/bindings/imports/leasehold_job_control"
	"leasehold/internal/bindings/imports/leasehold_job_http"
	"leasehold/internal/bindings/imports/leasehold_job_kv"
	"leasehold/internal/bindings/imports/leasehold_job_log"
	"leasehold/internal/bindings/imports/leasehold_job_progress"
	"leasehold/internal/bindings/imports/leasehold_job_state"
	"leasehold/internal/host"
	wit "leasehold/internal/wit/types"
)

// Handler is what the plugin exports, once it has said so.
var Handler func(run host.Run, input []byte) ([]byte, *host.Failed)

// Host is the host that runs this plugin.
type Host struct{}

func (Host) ShouldContinue() bool { return leasehold_job_control.ShouldContinue() }

func (Host) StopReason() (string, bool) {
	reason := leasehold_job_control.StopReason()
	return reason.SomeOr(""), reason.IsSome()
}

func (Host) RemainingMS() (uint64, bool) {
	ms := leasehold_job_control.RemainingMs()
	return ms.SomeOr(0), ms.IsSome()
}

func (Host) Sleep(ms uint64) bool { return leasehold_job_control.Sleep(ms) }

func (Host) IdempotencyKey(operation string) string {
	return leasehold_job_control.IdempotencyKey(operation)
}

func (Host) MaxLevel() host.Level { return host.Level(leasehold_job_log.MaxLevel()) }

func (Host) Emit(level host.Level, target, message string, fields []host.Field) {
	leasehold_job_log.Emit(uint8(level), Text(target), Text(message), Tuples(fields))
}

func (Host) Progress(done uint64, total *uint64, message string) {
	leasehold_job_progress.Update(done, option(total), Text(message))
}

func (Host) LoadState() ([]byte, *host.Failure) {
	result := leasehold_job_state.Load()
	if result.IsErr() {
		return nil, stateFailure(result.Err())
	}
	return bytes(result.Ok()), nil
}

func (Host) SaveState(data []byte) *host.Failure {
	result := leasehold_job_state.Save(data)
	if result.IsErr() {
		return stateFailure(result.Err())
	}
	return nil
}

func (Host) KVGet(key string) ([]byte, *host.Failure) {
	result := leasehold_job_kv.Get(key)
	if result.IsErr() {
		return nil, kvFailure(result.Err())
	}
	return bytes(result.Ok()), nil
}

func (Host) KVSet(key string, value []byte) *host.Failure {
	result := leasehold_job_kv.Set(key, value)
	if result.IsErr() {
		return kvFailure(result.Err())
	}
	return nil
}

func (Host) KVDelete(key string) (bool, *host.Failure) {
	result := leasehold_job_kv.Delete(key)
	if result.IsErr() {
		return false, kvFailure(result.Err())
	}
	return result.Ok(), nil
}

func (Host) KVList(prefix string, after *string, limit uint32) ([]string, *host.Failure) {
	result := leasehold_job_kv.ListKeys(prefix, option(after), limit)
	if result.IsErr() {
		return nil, kvFailure(result.Err())
	}
	return result.Ok(), nil
}

func (Host) KVCompareAndSet(key string, expected, value []byte) (bool, *host.Failure) {
	result := leasehold_job_kv.CompareAndSet(key, slice(expected), value)
	if result.IsErr() {
		return false, kvFailure(result.Err())
	}
	return result.Ok(), nil
}

func (Host) Config(key string) (string, bool) {
	value := leasehold_job_config.Get(key)
	return value.SomeOr(""), value.IsSome()
}

func (Host) Send(request host.Request) (host.Response, *host.Failure) {
	result := leasehold_job_http.Send(leasehold_job_http.Request{
		Method: request.Method, Url: request.URL, Headers: pairs(request.Headers), Body: slice(request.Body),
		TimeoutMs: option(request.TimeoutMS),
	})
	if result.IsErr() {
		return host.Response{}, httpFailure(result.Err())
	}
	response := result.Ok()
	return host.Response{Status: response.Status, Headers: Fields(response.Headers), Body: response.Body}, nil
}

// Text is UTF-8, as the host takes no other: what is not becomes U+FFFD.
func Text(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Fields are the bindings' pairs.
func Fields(pairs []wit.Tuple2[string, string]) []host.Field {
	fields := make([]host.Field, len(pairs))
	for i, pair := range pairs {
		fields[i] = host.Field{Key: pair.F0, Value: pair.F1}
	}
	return fields
}

// Tuples are pairs for the bindings, of texts for people.
func Tuples(fields []host.Field) []wit.Tuple2[string, string] {
	tuples := pairs(fields)
	for i, tuple := range tuples {
		tuples[i] = wit.Tuple2[string, string]{F0: Text(tuple.F0), F1: Text(tuple.F1)}
	}
	return tuples
}

func pairs(fields []host.Field) []wit.Tuple2[string, string] {
	pairs := make([]wit.Tuple2[string, string], len(fields))
	for i, field := range fields {
		pairs[i] = wit.Tuple2[string, string]{F0: field.Key, F1: field.Value}
	}
	return pairs
}

func option[T any](value *T) wit.Option[T] {
	if value == nil {
		return wit.None[T]()
	}
	return wit.Some(*value)
}

func slice(value []byte) wit.Option[[]byte] {
	if value == nil {
		return wit.None[[]byte]()
	}
	return wit.Some(value)
}

// Not nil when there is something, even when that is empty.
func bytes(value wit.Option[[]byte]) []byte {
	if value.IsNone() {
		return nil
	}
	return append([]byte{}, value.Some()...)
}

func stateFailure(err leasehold_job_state.StateError) *host.Failure {
	switch err.Tag() {
	case leasehold_job_state.StateError_Lost:
		return &host.Failure{Case: "lost"}
	case leasehold_job_state.StateError_TooLarge:
		return &host.Failure{Case: "too-large", Limit: err.TooLarge()}
	case leasehold_job_state.StateError_Unavailable:
		return &host.Failure{Case: "unavailable", Reason: err.Unavailable()}
	default:
		return &host.Failure{Case: "other", Reason: err.Other()}
	}
}

func kvFailure(err leasehold_job_kv.KvError) *host.Failure {
	switch err.Tag() {
	case leasehold_job_kv.KvError_Lost:
		return &host.Failure{Case: "lost"}
	case leasehold_job_kv.KvError_TooLarge:
		return &host.Failure{Case: "too-large", Limit: err.TooLarge()}
	case leasehold_job_kv.KvError_OverQuota:
		return &host.Failure{Case: "over-quota", Limit: err.OverQuota()}
	case leasehold_job_kv.KvError_Unavailable:
		return &host.Failure{Case: "unavailable", Reason: err.Unavailable()}
	default:
		return &host.Failure{Case: "other", Reason: err.Other()}
	}
}

func httpFailure(err leasehold_job_http.HttpError) *host.Failure {
	switch err.Tag() {
	case leasehold_job_http.HttpError_Lost:
		return &host.Failure{Case: "lost"}
	case leasehold_job_http.HttpError_Uncertain:
		return &host.Failure{Case: "uncertain"}
	case leasehold_job_http.HttpError_Denied:
		return &host.Failure{Case: "denied", Reason: err.Denied()}
	case leasehold_job_http.HttpError_Invalid:
		return &host.Failure{Case: "invalid", Reason: err.Invalid()}
	case leasehold_job_http.HttpError_Unreachable:
		return &host.Failure{Case: "unreachable", Reason: err.Unreachable()}
	case leasehold_job_http.HttpError_Timeout:
		return &host.Failure{Case: "timeout"}
	case leasehold_job_http.HttpError_TooLarge:
		return &host.Failure{Case: "too-large", Limit: err.TooLarge()}
	default:
		return &host.Failure{Case: "other", Reason: err.Other()}
	}
}
