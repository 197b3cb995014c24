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

// The log file is set aside at maxBytes, and so many older ones are kept.
const (
	maxBytes = 32 << 20
	backups  = 4
)

// LogOptions says where a log goes.
type LogOptions struct {
	// Stderr gets the log in Format: text, or json for a line of JSON each; empty means text.
	Stderr io.Writer
	Format string
	// DataDir is where <data>/log/<Name>.log gets JSON; empty means no file.
	DataDir string
	// Name is the process's name.
	Name string
	// Level is debug, info, warn or error; empty means info.
	Level string
	// Quiet leaves stderr to warnings and errors; the file gets everything.
	Quiet bool
}

// NewLog makes the log. close closes its file; it is the last call.
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

// readable writes durations as people do, "1.5s" and not a count of nanoseconds, in three digits or so.
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

// fanout hands each record to every handler that wants it.
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
