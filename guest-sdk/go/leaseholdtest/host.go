// Package leaseholdtest is for the unit tests of a handler, with plain go test: a run to hand it, and a host that does as
// it is told.
//
//	func TestItGreetsByName(t *testing.T) {
//		host := leaseholdtest.New()
//		reply, err := greet(host.Context, host.Run, Greeting{Name: "Ada"})
//		…
//	}
//
// Each Host is a world of its own, so tests may run in parallel. It goes on until Stop or StopAfter says otherwise, does
// not really wait in Run.Sleep, and keeps state and key-values in memory. What the handler says through slog goes
// wherever the test has sent it.
package leaseholdtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold"
	"leasehold/internal/host"
)

// Host is a double of the host. Its fields may be set before the handler is called and looked at afterwards.
type Host struct {
	// Context and Run are what a handler is called with: the first attempt of the job test/job at 2025-01-01T00:00:00Z.
	Context context.Context
	Run     *leasehold.Run

	// Config is what Run.Config answers.
	Config map[string]string
	// Answer answers requests. Without it, every origin is denied. It may return a *leasehold.HTTPError.
	Answer func(*leasehold.Request) (*leasehold.Response, error)
	// State is the checkpoint; nil when there is none.
	State []byte
	// KV is the tenant's key-value space.
	KV map[string][]byte
	// Progress is the latest report; nil when there is none.
	Progress *Progress
	// Log is what was said to Run.NewLogHandler.
	Log []Line

	mutex  sync.Mutex
	checks int
	reason string
}

// Line is one of the run's log.
type Line struct {
	// Level is "trace", "debug", "info", "warn" or "error".
	Level, Message string
	// Fields are pairs of name and value.
	Fields [][2]string
}

// Progress is how far a handler said it was.
type Progress struct {
	// Done and Total are in the handler's own unit; a Total of 0 is one that it does not know.
	Done, Total uint64
	Message     string
}

// New is a host that has just started a run.
func New() *Host {
	slot := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	h := &Host{Config: map[string]string{}, KV: map[string][]byte{}}
	h.Context, h.Run, _ = leasehold.NewRun(double{h}, host.Run{
		ID: "test-run", Tenant: "test", Job: "job", SlotMS: uint64(slot), Attempt: 1, MaxAttempts: 3,
		Fence: uint64(slot)*1024 + 1, Reason: "schedule",
	})
	return h
}

// Stop says that from now on the handler must stop: "lost", "stopping", "cancelled" or "deadline".
func (h *Host) Stop(reason string) { h.StopAfter(0, reason) }

// StopAfter says that the handler must stop once it has asked, or waited, so many more times.
func (h *Host) StopAfter(checks int, reason string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.checks, h.reason = checks, reason
}

// double is Host as the SDK sees it.
type double struct{ *Host }

func (d double) ShouldContinue() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.reason == "" {
		return true
	}
	if d.checks == 0 {
		return false
	}
	d.checks--
	return true
}

func (d double) StopReason() (string, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.reason == "" || d.checks > 0 {
		return "", false
	}
	return d.reason, true
}

func (d double) RemainingMS() (uint64, bool) { return 0, false }

func (d double) Sleep(uint64) bool { return d.ShouldContinue() }

func (d double) IdempotencyKey(operation string) string { return "test:" + told(operation) }

func (d double) MaxLevel() host.Level { return host.Trace }

func (d double) Emit(level host.Level, _, message string, fields []host.Field) {
	line := Line{Level: [...]string{"trace", "debug", "info", "warn", "error"}[level], Message: message}
	for _, field := range fields {
		line.Fields = append(line.Fields, [2]string{field.Key, field.Value})
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.Log = append(d.Log, line)
}

func (d double) Progress(done uint64, total *uint64, message string) {
	d.Host.Progress = &Progress{Done: done, Message: message}
	if total != nil {
		d.Host.Progress.Total = *total
	}
}

func (d double) LoadState() ([]byte, *host.Failure) { return slices.Clone(d.State), nil }

func (d double) SaveState(data []byte) *host.Failure {
	if failure := check("", data); failure != nil {
		return failure
	}
	d.State = present(data)
	return nil
}

func (d double) KVGet(key string) ([]byte, *host.Failure) {
	return slices.Clone(d.KV[key]), check(key, nil)
}

func (d double) KVSet(key string, value []byte) *host.Failure {
	if failure := check(key, value); failure != nil {
		return failure
	}
	d.KV[key] = present(value)
	return nil
}

func (d double) KVDelete(key string) (bool, *host.Failure) {
	if failure := check(key, nil); failure != nil {
		return false, failure
	}
	_, found := d.KV[key]
	delete(d.KV, key)
	return found, nil
}

func (d double) KVList(prefix string, after *string, limit uint32) ([]string, *host.Failure) {
	if failure := check(prefix, nil); failure != nil {
		return nil, failure
	}
	if after != nil {
		if failure := check(*after, nil); failure != nil {
			return nil, failure
		}
	}
	keys := []string{}
	for key := range d.KV {
		if strings.HasPrefix(key, prefix) && (after == nil || key > *after) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), int(min(limit, maxList)))], nil
}

func (d double) KVCompareAndSet(key string, expected, value []byte) (bool, *host.Failure) {
	if failure := check(key, value); failure != nil {
		return false, failure
	}
	now, found := d.KV[key]
	if found != (expected != nil) || string(now) != string(expected) {
		return false, nil
	}
	d.KV[key] = present(value)
	return true, nil
}

func (d double) Config(key string) (string, bool) {
	value, found := d.Host.Config[told(key)]
	return value, found
}

func (d double) Send(request host.Request) (host.Response, *host.Failure) {
	if failure := checkURL(request.URL); failure != nil {
		return host.Response{}, failure
	}
	if d.Answer == nil {
		return host.Response{}, &host.Failure{Case: "denied", Reason: request.URL + " is not granted"}
	}
	if failure := checkRequest(request); failure != nil {
		return host.Response{}, failure
	}
	asked := &leasehold.Request{Method: request.Method, URL: request.URL, Body: request.Body}
	for _, field := range request.Headers {
		asked.Add(field.Key, field.Value)
	}
	if request.TimeoutMS != nil {
		asked.Timeout = time.Duration(*request.TimeoutMS) * time.Millisecond
	}
	answer, err := d.Answer(asked)
	if err != nil {
		return host.Response{}, failure(err)
	}
	response := host.Response{Status: uint16(answer.Status), Body: present(answer.Body)}
	for _, pair := range answer.Header {
		response.Headers = append(response.Headers, host.Field{Key: strings.ToLower(pair[0]), Value: pair[1]})
	}
	return response, nil
}

func failure(err error) *host.Failure {
	if http, ok := err.(*leasehold.HTTPError); ok {
		return &host.Failure{Case: http.Case, Reason: http.Reason, Limit: http.Limit}
	}
	return &host.Failure{Case: "other", Reason: err.Error()}
}

// A copy that is there, even when it is empty.
func present(data []byte) []byte { return append([]byte{}, data...) }
