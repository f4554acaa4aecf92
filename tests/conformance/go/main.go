// Does what the tests of all languages ask for: one handler, told by its payload what to show.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"leasehold"
	"leasehold/httpclient"
)

func init() { leasehold.Handle(conform) }
func main() {}

type check struct {
	Check               string
	Kind, Code, Message string
	Details             map[string]string
	MS                  int64
	Key                 string
	Method, URL         string
	Headers             map[string]string
	Body                *string
}

type object map[string]any

func conform(ctx context.Context, run *leasehold.Run, payload []byte) ([]byte, error) {
	// What is no JSON comes back as it is.
	if !json.Valid(payload) {
		return payload, nil
	}
	var in check
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, leasehold.Permanent("bad-input", err)
	}
	if in.Check == "echo" {
		return payload, nil
	}
	output, err := answer(ctx, run, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(output)
}

func answer(ctx context.Context, run *leasehold.Run, in check) (any, error) {
	switch in.Check {
	case "facts":
		return object{
			"tenant": run.Tenant, "job": run.Job, "attempt": run.Attempt, "reason": run.Reason, "run_id": run.ID,
			"fence": run.Fence, "slot_ms": run.Slot.UnixMilli(), "key": run.IdempotencyKey("charge-42"),
		}, nil
	case "fail":
		return nil, failure(in)
	case "crash":
		panic("crash on purpose")
	case "log":
		return logLines(ctx), nil
	case "poll":
		return poll(ctx, run), nil
	case "sleep":
		err := run.Sleep(time.Duration(in.MS) * time.Millisecond)
		return object{"slept": err == nil, "reason": reason(run)}, nil
	case "state":
		return state(run)
	case "kv":
		return keyValues(run.KV())
	case "kv-bytes":
		return kvBytes(run.KV())
	case "config":
		if value, found := run.Config(in.Key); found {
			return value, nil
		}
		return nil, nil
	case "http":
		return send(ctx, run, in)
	case "http-bytes":
		return sendBytes(ctx, run, in.URL)
	default:
		return nil, leasehold.Permanent("bad-input", errors.New("no such check: "+in.Check))
	}
}

func failure(in check) error {
	var failed *leasehold.Error
	switch in.Kind {
	case "permanent":
		failed = leasehold.Permanent(in.Code, errors.New(in.Message))
	case "retryable":
		failed = leasehold.Retryable(in.Code, errors.New(in.Message))
	case "cancelled":
		return leasehold.ErrCancelled
	default:
		return leasehold.Permanent("bad-input", errors.New("no such kind: "+in.Kind))
	}
	for key, value := range in.Details {
		failed.With(key, value)
	}
	return failed
}

func logLines(ctx context.Context) any {
	fields := []any{slog.Int("n", 7), slog.String("s", "späß")}
	slog.Log(ctx, leasehold.LevelTrace, "line at trace: grüße", fields...)
	slog.DebugContext(ctx, "line at debug: grüße", fields...)
	slog.InfoContext(ctx, "line at info: grüße", fields...)
	slog.WarnContext(ctx, "line at warn: grüße", fields...)
	slog.ErrorContext(ctx, "line at error: grüße", fields...)
	return nil
}

// By the context alone, and waiting on it as Go code does.
func poll(ctx context.Context, run *leasehold.Run) any {
	<-ctx.Done()
	var stop *leasehold.StopError
	if errors.As(context.Cause(ctx), &stop) {
		return object{"stopped": stop.Reason}
	}
	return object{"stopped": nil}
}

func reason(run *leasehold.Run) any {
	if reason := run.StopReason(); reason != "" {
		return reason
	}
	return nil
}

func state(run *leasehold.Run) (any, error) {
	var found json.RawMessage
	if there, err := run.LoadState(&found); err != nil || there {
		return found, err
	}
	if err := run.SaveState(object{"from": run.Attempt}); err != nil {
		return nil, err
	}
	slog.Info("saved")
	for {
		if err := run.Sleep(time.Minute); err != nil {
			return nil, err
		}
	}
}

func keyValues(kv leasehold.KV) (any, error) {
	const key = "conf/a"
	one, two := []byte("1"), []byte("2")
	err := kv.Set(key, one)
	get, _, failed := kv.Get(key)
	err = errors.Join(err, failed)
	wrong, failed := kv.CompareAndSet(key, []byte("0"), two)
	err = errors.Join(err, failed)
	right, failed := kv.CompareAndSet(key, one, two)
	err = errors.Join(err, failed)
	keys, failed := kv.Keys("conf/", 10)
	err = errors.Join(err, failed)
	deleted, failed := kv.Delete(key)
	err = errors.Join(err, failed)
	value, there, failed := kv.Get(key)
	err = errors.Join(err, failed)
	var after any
	if there {
		after = string(value)
	}
	return object{
		"get": string(get), "cas_wrong": wrong, "cas_right": right, "keys": keys, "deleted": deleted, "after": after,
	}, err
}

func kvBytes(kv leasehold.KV) (any, error) {
	const key = "conf/b"
	created, err := kv.CompareAndSet(key, nil, nil)
	var empty any
	value, there, failed := kv.Get(key)
	if there {
		empty = string(value)
	}
	err = errors.Join(err, failed)
	present, failed := kv.CompareAndSet(key, nil, []byte("x"))
	err = errors.Join(err, failed)
	filled, failed := kv.CompareAndSet(key, []byte{}, everyByte())
	err = errors.Join(err, failed)
	value, _, failed = kv.Get(key)
	return object{
		"new": created, "empty": empty, "present": present, "filled": filled, "bytes": numbers(value),
	}, errors.Join(err, failed)
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// numbers is bytes as a list, which JSON makes text of otherwise.
func numbers(data []byte) []int {
	list := make([]int, len(data))
	for i, one := range data {
		list[i] = int(one)
	}
	return list
}

// By net/http's own client.
func send(ctx context.Context, run *leasehold.Run, in check) (any, error) {
	var body io.Reader
	if in.Body != nil {
		body = strings.NewReader(*in.Body)
	}
	request, err := http.NewRequestWithContext(ctx, in.Method, in.URL, body)
	if err != nil {
		return nil, leasehold.Permanent("http-invalid", err)
	}
	for name, value := range in.Headers {
		request.Header.Set(name, value)
	}
	response, err := httpclient.New(run).Do(request)
	var why *leasehold.HTTPError
	if errors.As(err, &why) {
		return nil, leasehold.Permanent("http-"+why.Case, err)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var reply any
	if value := response.Header.Get("x-reply"); value != "" {
		reply = value
	}
	return object{"status": response.StatusCode, "body": string(text), "header": reply}, nil
}

func sendBytes(ctx context.Context, run *leasehold.Run, url string) (any, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(everyByte()))
	if err != nil {
		return nil, err
	}
	request.Header.Add("x-tag", "a")
	request.Header.Add("x-tag", "b")
	response, err := httpclient.New(run).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return numbers(body), err
}
