package leasehold

import (
	"fmt"

	"leasehold/internal/host"
)

// LoadState reads the checkpoint that this or an earlier attempt of the run saved last, as JSON (or as it is, into a
// *[]byte). False when there is none. Fails with a [*StorageError], or permanent bad-state when it does not fit.
func (r *Run) LoadState(into any) (bool, error) {
	data, failure := r.host.LoadState()
	if failure != nil {
		return false, storageError(failure)
	}
	if data == nil {
		return false, nil
	}
	if err := read(data, into); err != nil {
		return false, Permanent("bad-state", fmt.Errorf("the checkpoint does not fit: %w", err))
	}
	return true, nil
}

// SaveState saves a checkpoint for the next attempt, as JSON (or as it is, of a []byte), at most 1 MiB. It is durable when
// this returns, refused once the lease is lost, and goes when the run ends for good. Fails with a [*StorageError], or
// permanent bad-state for a value that has no form in JSON.
func (r *Run) SaveState(state any) error {
	data, err := write(state)
	if err != nil {
		return Permanent("bad-state", fmt.Errorf("the checkpoint is not JSON: %w", err))
	}
	return orNil(r.host.SaveState(data))
}

// KV is the tenant's key-value space: shared by all its jobs, kept when runs end.
//
// Keys have at most 512 bytes, values 1 MiB. Writes are durable before they return and refused once the lease is lost;
// while it is in doubt they wait. Every call fails with a [*StorageError].
type KV struct{ host host.Host }

// KV is the tenant's key-value space.
func (r *Run) KV() KV { return KV{r.host} }

// Get is a value; false when there is none.
func (kv KV) Get(key string) ([]byte, bool, error) {
	value, failure := kv.host.KVGet(key)
	return value, value != nil, orNil(failure)
}

// Set sets a value.
func (kv KV) Set(key string, value []byte) error { return orNil(kv.host.KVSet(key, value)) }

// Delete deletes a value. False when there was none.
func (kv KV) Delete(key string) (bool, error) {
	deleted, failure := kv.host.KVDelete(key)
	return deleted, orNil(failure)
}

// Keys are those that begin with prefix, in the order of their bytes: at most limit, and never more than 1 000. Those of
// the next page come after the last of this one: hand it to KeysAfter.
func (kv KV) Keys(prefix string, limit uint32) ([]string, error) {
	keys, failure := kv.host.KVList(prefix, nil, limit)
	return keys, orNil(failure)
}

// KeysAfter is Keys from behind a key on.
func (kv KV) KeysAfter(prefix, after string, limit uint32) ([]string, error) {
	keys, failure := kv.host.KVList(prefix, &after, limit)
	return keys, orNil(failure)
}

// CompareAndSet sets a value if the present one is expected (nil: if there is none). False when it is not.
func (kv KV) CompareAndSet(key string, expected, value []byte) (bool, error) {
	written, failure := kv.host.KVCompareAndSet(key, expected, value)
	return written, orNil(failure)
}

func orNil(failure *host.Failure) error {
	if failure == nil {
		return nil
	}
	return storageError(failure)
}

func storageError(failure *host.Failure) error {
	return &StorageError{Case: failure.Case, Reason: failure.Reason, Limit: failure.Limit}
}
