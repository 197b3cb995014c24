package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// eventKey is the first attribute of a record that is an event with fixed fields.
const eventKey = "event"

// events writes records as lines of JSON. A record whose first attribute is an event's name has exactly its own
// attributes, with its own timestamp and a level in lower case, so that log collectors can rely on its fields.
type events struct {
	slog.Handler              // handler of all other records
	exact        slog.Handler // handler without the attributes of With
}

// newEvents returns a handler that writes to out.
func newEvents(out io.Writer, level slog.Leveler) slog.Handler {
	out = &oneAtATime{out: out}
	bare := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, slog.MessageKey:
			return slog.Attr{}
		case slog.LevelKey:
			return slog.String(a.Key, strings.ToLower(a.Value.String()))
		}
		return a
	}
	return events{
		Handler: slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}),
		exact:   slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: bare}),
	}
}

// oneAtATime is a writer shared by two handlers.
type oneAtATime struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (w *oneAtATime) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// Handle implements slog.Handler.
func (e events) Handle(ctx context.Context, r slog.Record) error {
	event := false
	r.Attrs(func(a slog.Attr) bool {
		event = a.Key == eventKey
		return false
	})
	if event {
		return e.exact.Handle(ctx, r)
	}
	return e.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (e events) WithAttrs(attrs []slog.Attr) slog.Handler {
	return events{e.Handler.WithAttrs(attrs), e.exact}
}

// WithGroup implements slog.Handler.
func (e events) WithGroup(name string) slog.Handler {
	return events{e.Handler.WithGroup(name), e.exact}
}
