//go:build wasip1

package leasehold

import (
	"log/slog"

	// The exports themselves, which call into internal/guest.
	_ "leasehold/internal/bindings/exports/wit_exports"
	"leasehold/internal/guest"
	"leasehold/internal/host"
)

// Not inlined: cmd/embed knows by its name that the plugin has a handler.
//
//go:noinline
func export(handler untyped) {
	guest.Handler = func(run host.Run, payload []byte) ([]byte, *host.Failed) {
		// A logger that the plugin has set before, in an init function of its own, stays.
		if slog.Default() == before {
			slog.SetDefault(slog.New(newLogHandler(guest.Host{})))
		}
		return finish(guest.Host{}, run, payload, handler)
	}
}

// What slog logs to while nobody has said otherwise.
var before = slog.Default()
