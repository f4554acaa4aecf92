// Package host says what the SDK asks of a host: the real one inside a plugin, a double in tests.
package host

// Level is how severe a line of the log is, the least severe first.
type Level uint8

// The levels of the contract.
const (
	Trace Level = iota
	Debug
	Info
	Warn
	Error
)

// Field is a name and its value: of a line of the log, a header, a detail of an error, or of a run's metadata.
type Field struct{ Key, Value string }

// Run is what the host says about a run.
type Run struct {
	ID, Tenant, Job      string
	SlotMS               uint64
	Attempt, MaxAttempts uint32
	Fence                uint64
	Reason               string
	Metadata             []Field
}

// Failure is why the host did not do what it was asked: a case of the contract's state-error, kv-error or http-error,
// by its name there ("too-large"), with what that case carries.
type Failure struct {
	Case   string
	Reason string
	Limit  uint64
}

// Request is one of `http.send`. No body is nil, an empty one is not.
type Request struct {
	Method, URL string
	Headers     []Field
	Body        []byte
	TimeoutMS   *uint64
}

// Response answers a Request.
type Response struct {
	Status  uint16
	Headers []Field
	Body    []byte
}

// Kind is what the host is asked to do with a failed run.
type Kind uint8

// The cases of the contract's handler-error.
const (
	Retryable Kind = iota
	Permanent
	Cancelled
)

// Failed is how a handler ended that did not succeed.
type Failed struct {
	Kind          Kind
	Code, Message string
	Details       []Field
}

// Host is everything of the contract that a plugin may import.
type Host interface {
	ShouldContinue() bool
	StopReason() (string, bool)
	RemainingMS() (uint64, bool)
	Sleep(ms uint64) bool
	IdempotencyKey(operation string) string

	MaxLevel() Level
	Emit(level Level, target, message string, fields []Field)

	Progress(done uint64, total *uint64, message string)

	// A checkpoint or value that is not there is nil without a failure; one that is empty is not nil.
	LoadState() ([]byte, *Failure)
	SaveState(data []byte) *Failure
	KVGet(key string) ([]byte, *Failure)
	KVSet(key string, value []byte) *Failure
	KVDelete(key string) (bool, *Failure)
	KVList(prefix string, after *string, limit uint32) ([]string, *Failure)
	KVCompareAndSet(key string, expected, value []byte) (bool, *Failure)

	Config(key string) (string, bool)

	Send(request Request) (Response, *Failure)
}
