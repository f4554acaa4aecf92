package leasehold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leasehold/internal/host"
)

// Run is the run that a handler was started for. Every attempt gets one of its own.
type Run struct {
	// ID names the run across all its attempts, unique among all stores and namespaces.
	ID string
	// Tenant is whose job this is.
	Tenant string
	// Job is the job's name within its tenant.
	Job string
	// Slot is when the run was due, to the millisecond, UTC. For an on-demand run, when it was asked for.
	Slot time.Time
	// Attempt is 1 for the first start; each takeover adds one.
	Attempt uint32
	// MaxAttempts is how many starts the run may have.
	MaxAttempts uint32
	// Fence grows strictly from win to win of a job. Hand it to systems that can refuse the older of two writers.
	Fence uint64
	// Reason is "schedule", "catch-up", "takeover" or "on-demand"; more words may come.
	Reason string
	// Metadata is what else the host says about the run.
	Metadata map[string]string

	host host.Host
}

// StopError says why the handler must stop. It is the cause of the context's end: context.Cause(ctx).
// errors.Is(err, context.Canceled) is true for it.
type StopError struct {
	// Reason is "lost", "stopping", "cancelled" or "deadline"; more words may come.
	Reason string
}

func (e *StopError) Error() string { return "the run was asked to stop: " + e.Reason }

// Is makes it one of the context's own errors, too.
func (e *StopError) Is(target error) bool { return target == context.Canceled }

// ShouldContinue is false once the lease is lost, the host is stopping, the run was cancelled or its time is up. Costs
// nanoseconds.
func (r *Run) ShouldContinue() bool { return r.host.ShouldContinue() }

// StopReason says why ShouldContinue is false: "lost", "stopping", "cancelled" or "deadline"; more words may come. Empty
// while it is true.
func (r *Run) StopReason() string {
	reason, _ := r.host.StopReason()
	return reason
}

// Remaining is how long until the host interrupts this attempt by force; false where that is not known.
func (r *Run) Remaining() (time.Duration, bool) {
	ms, known := r.host.RemainingMS()
	return time.Duration(min(ms, maxMS)) * time.Millisecond, known
}

// Sleep waits, to the millisecond (rounded up). When the attempt must stop before the time is over, it returns a
// *StopError, at once. time.Sleep waits to its end, whatever happens.
func (r *Run) Sleep(d time.Duration) error {
	if r.host.Sleep(millis(d)) {
		return nil
	}
	return r.stopped()
}

// IdempotencyKey is a key for one named operation of this run ("charge-42"), the same in every attempt. Put it on
// requests whose receiver knows idempotency keys.
func (r *Run) IdempotencyKey(operation string) string { return r.host.IdempotencyKey(operation) }

// Progress says how far the run is. The newest report wins. A total of 0 means that nobody knows it.
func (r *Run) Progress(done, total uint64, message string) {
	if total == 0 {
		r.host.Progress(done, nil, message)
	} else {
		r.host.Progress(done, &total, message)
	}
}

// Config is a setting the operator gave the tenant and the job's manifest asks for; false when there is none. A secret is
// a placeholder, which the host replaces in the one header and towards the one origin it was granted for.
func (r *Run) Config(key string) (string, bool) { return r.host.Config(key) }

func (r *Run) stopped() error {
	reason, _ := r.host.StopReason()
	return &StopError{Reason: reason}
}

// NewRun is for package leaseholdtest.
func NewRun(h host.Host, info host.Run) (context.Context, *Run, func()) { return begin(h, info) }

func begin(h host.Host, info host.Run) (context.Context, *Run, func()) {
	run := &Run{
		ID: info.ID, Tenant: info.Tenant, Job: info.Job, Slot: time.UnixMilli(int64(info.SlotMS)).UTC(),
		Attempt: info.Attempt, MaxAttempts: info.MaxAttempts, Fence: info.Fence, Reason: info.Reason,
		Metadata: make(map[string]string, len(info.Metadata)), host: h,
	}
	for _, field := range info.Metadata {
		run.Metadata[field.Key] = field.Value
	}
	inner, cancel := context.WithCancelCause(context.Background())
	ctx := &signal{Context: inner, cancel: cancel, run: run, ended: make(chan struct{})}
	return ctx, run, func() {
		close(ctx.ended)
		cancel(context.Canceled)
	}
}

// signal is a context that asks the host: a guest runs alone, so nobody can tell it while it does not ask.
type signal struct {
	context.Context
	cancel context.CancelCauseFunc
	run    *Run
	// Closed when the handler has returned.
	ended chan struct{}
	watch sync.Once
}

// How often the host is asked for those who wait on Done.
const watchEvery = 20 * time.Millisecond

func (s *signal) Err() error {
	s.ask()
	return s.Context.Err()
}

func (s *signal) Done() <-chan struct{} {
	s.ask()
	s.watch.Do(func() { go s.keepAsking() })
	return s.Context.Done()
}

// Deadline is when the host interrupts this attempt by force, where that is known.
func (s *signal) Deadline() (time.Time, bool) {
	left, known := s.run.Remaining()
	if !known {
		return time.Time{}, false
	}
	return time.Now().Add(left), true
}

func (s *signal) ask() {
	if !s.run.ShouldContinue() {
		s.cancel(s.run.stopped())
	}
}

func (s *signal) keepAsking() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-s.Context.Done():
			return
		case <-ticker.C:
			s.ask()
		}
	}
}

func (s *signal) String() string { return fmt.Sprintf("leasehold.Run(%s)", s.run.ID) }

const maxMS = uint64(1<<63-1) / uint64(time.Millisecond)

// Rounded up, so that nobody waits for less than was asked.
func millis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d-1)/time.Millisecond) + 1
}
