package leasehold

import (
	"context"
	"log/slog"
	"runtime"
	"slices"

	"leasehold/internal/host"
)

// LevelTrace is the host's least severe level, which slog has no name for: slog.Log(ctx, leasehold.LevelTrace, "…").
const LevelTrace = slog.Level(-8)

// logHandler sends what a handler says through slog, and through log, to the run's log.
type logHandler struct {
	host  host.Host
	least host.Level
	// Of the groups that are open, each with a dot behind it.
	prefix string
	fields []host.Field
}

func newLogHandler(h host.Host) slog.Handler { return &logHandler{host: h, least: h.MaxLevel()} }

// NewLogHandler is the slog.Handler that a plugin's slog.Default has from the start: it sends lines to the run's log. Use
// it to wrap it in one of your own; natively it logs to the test's double.
func (r *Run) NewLogHandler() slog.Handler { return newLogHandler(r.host) }

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return hostLevel(level) >= h.least
}

func (h *logHandler) Handle(_ context.Context, record slog.Record) error {
	fields := slices.Clone(h.fields)
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendAttr(fields, h.prefix, attr)
		return true
	})
	h.host.Emit(hostLevel(record.Level), target(record.PC), record.Message, fields)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = slices.Clone(h.fields)
	for _, attr := range attrs {
		with.fields = appendAttr(with.fields, h.prefix, attr)
	}
	return &with
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix += name + "."
	return &with
}

// As slog asks of handlers: values are resolved, empty attributes and groups left out, groups without a name inlined.
func appendAttr(fields []host.Field, prefix string, attr slog.Attr) []host.Field {
	value := attr.Value.Resolve()
	if attr.Equal(slog.Attr{}) {
		return fields
	}
	if value.Kind() != slog.KindGroup {
		return append(fields, host.Field{Key: prefix + attr.Key, Value: value.String()})
	}
	if attr.Key != "" {
		prefix += attr.Key + "."
	}
	for _, inner := range value.Group() {
		fields = appendAttr(fields, prefix, inner)
	}
	return fields
}

// target is the function that logged: "main.greet".
func target(pc uintptr) string {
	if pc == 0 {
		return "go"
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if frame.Function == "" {
		return "go"
	}
	return frame.Function
}

func hostLevel(level slog.Level) host.Level {
	switch {
	case level < slog.LevelDebug:
		return host.Trace
	case level < slog.LevelInfo:
		return host.Debug
	case level < slog.LevelWarn:
		return host.Info
	case level < slog.LevelError:
		return host.Warn
	default:
		return host.Error
	}
}
