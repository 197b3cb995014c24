package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"kaged.dev/pkg/fault"
)

// The log file is rotated at maxBytes, and this number of older files is kept.
const (
	maxBytes = 32 << 20
	backups  = 4
)

// LogOptions are the destinations and the level of a log.
type LogOptions struct {
	// Stderr gets the log in Format: text, or json for one JSON object per line; empty means text.
	Stderr io.Writer
	Format string
	// DataDir is the data directory for the JSON file <data>/log/<Name>.log; empty means no file.
	DataDir string
	// Name is the process's name.
	Name string
	// Level is debug, info, warn or error; empty means info.
	Level string
	// Quiet writes only warnings and errors to stderr; the file gets all entries.
	Quiet bool
}

// NewLog creates the log. close closes its file; call it last.
func NewLog(opts LogOptions) (log *slog.Logger, close func(), err error) {
	level := slog.LevelInfo
	if opts.Level != "" {
		if err := level.UnmarshalText([]byte(opts.Level)); err != nil {
			return nil, nil, fault.New(fault.BadRequest, "The log level %q is not one of debug, info, warn, error.", opts.Level)
		}
	}
	stderrLevel := level
	if opts.Quiet {
		stderrLevel = max(level, slog.LevelWarn)
	}
	shown := &slog.HandlerOptions{Level: stderrLevel, ReplaceAttr: readable}
	var handlers fanout
	switch opts.Format {
	case "", "text":
		handlers = fanout{slog.NewTextHandler(opts.Stderr, shown)}
	case "json":
		handlers = fanout{newEvents(opts.Stderr, stderrLevel)}
	default:
		return nil, nil,
			fault.New(fault.BadRequest, "The log format %q of KAGED_LOG_FORMAT is not one of text, json.", opts.Format)
	}
	if opts.DataDir == "" {
		return slog.New(handlers), func() {}, nil
	}
	dir := filepath.Join(opts.DataDir, "log")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fault.Wrap(err, fault.Unavailable, "The log folder %s cannot be made.", dir)
	}
	file, err := openRotating(filepath.Join(dir, opts.Name+".log"), maxBytes, backups)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Unavailable, "The log in %s cannot be written.", dir)
	}
	handlers = append(handlers, newEvents(file, level))
	return slog.New(handlers), func() { file.Close() }, nil
}

// readable formats durations for people, as "1.5s" and not in nanoseconds, with about three digits.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	d := a.Value.Duration()
	for unit := 1000 * time.Second; unit > 1; unit /= 10 {
		if d.Abs() >= unit {
			d = d.Round(unit / 100)
			break
		}
	}
	return slog.String(a.Key, d.String())
}

// fanout passes each record to every handler that accepts it.
type fanout []slog.Handler

func (f fanout) Enabled(ctx context.Context, level slog.Level) bool {
	for _, h := range f {
		if h.Enabled(ctx, level) {
			return true
		}
	}
	return false
}

func (f fanout) Handle(ctx context.Context, r slog.Record) error {
	var errs []error
	for _, h := range f {
		if h.Enabled(ctx, r.Level) {
			errs = append(errs, h.Handle(ctx, r.Clone()))
		}
	}
	return errors.Join(errs...)
}

func (f fanout) WithAttrs(attrs []slog.Attr) slog.Handler {
	g := make(fanout, len(f))
	for i, h := range f {
		g[i] = h.WithAttrs(attrs)
	}
	return g
}

func (f fanout) WithGroup(name string) slog.Handler {
	g := make(fanout, len(f))
	for i, h := range f {
		g[i] = h.WithGroup(name)
	}
	return g
}
