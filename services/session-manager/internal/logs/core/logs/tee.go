package logs

import (
	"context"
	"log/slog"
	"time"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/redact"
)

// Tee returns a handler that passes records to next, and those of level info and above about a session, run or
// project also to the collector.
func Tee(next slog.Handler, to *Collector) slog.Handler { return tee{next: next, to: to} }

type tee struct {
	next  slog.Handler
	to    *Collector
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (t tee) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || t.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (t tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tee{t.next.WithAttrs(attrs), t.to, append(t.attrs[:len(t.attrs):len(t.attrs)], attrs...)}
}

// WithGroup implements [slog.Handler]. Logs of projects ignore groups.
func (t tee) WithGroup(name string) slog.Handler { return tee{t.next.WithGroup(name), t.to, t.attrs} }

// Handle implements [slog.Handler].
func (t tee) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		t.take(ctx, r)
	}
	if !t.next.Enabled(ctx, r.Level) {
		return nil
	}
	return t.next.Handle(ctx, r)
}

func (t tee) take(ctx context.Context, r slog.Record) {
	e := Entry{TS: r.Time.UnixMilli(), Level: r.Level, Source: Daemon, Message: r.Message, Context: map[string]any{}}
	add := func(a slog.Attr) bool {
		e.attr(a)
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	if e.SessionID != "" || e.RunID != "" {
		e.Source = Session
	} else if e.ProjectID == "" {
		return
	}
	e.Owner = ident.CallerFrom(ctx).UserID
	t.to.Take(e)
}

// attr adds an attribute of a log record to the entry.
func (e *Entry) attr(a slog.Attr) {
	v := a.Value.Resolve()
	switch a.Key {
	case "session", "session_id":
		e.SessionID = v.String()
	case "run", "run_id":
		e.RunID = v.String()
		e.Context["run_id"] = e.RunID
	case "project", "project_id":
		e.ProjectID = v.String()
	case "service", "stack": // constant, and only useful in the daemon's log
	default:
		e.Context[a.Key] = plain(v)
	}
}

// plain returns a value that JSON can encode.
func plain(v slog.Value) any {
	switch v.Kind() {
	case slog.KindBool, slog.KindFloat64, slog.KindInt64, slog.KindUint64:
		return v.Any()
	case slog.KindDuration:
		return v.Duration().Round(time.Millisecond).String()
	}
	return redact.Mask(redact.Shorten(v.String(), maxMessage))
}
