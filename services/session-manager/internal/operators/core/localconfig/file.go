package localconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// settle is the minimum age of a file's change after which its size and time identify its version: a file system's
// clock may tick as slowly as this, so that a change right after a read may leave both unchanged.
const settle = 100 * time.Millisecond

// File is the configuration of a daemon's single operator: local.toml. It checks the file at each use and reads a
// changed one again, so that an edit takes effect at the next call without a watcher. A missing file is an empty
// configuration.
type File struct {
	path      string
	maxScript int64 // in bytes
	log       *slog.Logger

	mu       sync.Mutex // guards the fields below
	seen     []stamp    // the stamps of local.toml and then of each script
	current  *Config
	failure  error
	revision uint64
}

// stamp identifies the version of a file at its read.
type stamp struct {
	path string
	info fs.FileInfo // nil if missing
	read time.Time
}

// NewFile returns the configuration at path; "" is an empty one. maxScript is the maximum size of a rehearsal script in
// bytes. The log gets warnings about settings that work but should be changed. NewFile reads no file yet.
func NewFile(path string, maxScript int64, log *slog.Logger) *File {
	return &File{path: path, maxScript: maxScript, log: log}
}

// Config implements [Source]. Every operator of the daemon has the same configuration.
func (f *File) Config(context.Context, string) (*Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || f.changed() {
		f.load()
	}
	return f.current, f.failure
}

func (f *File) changed() bool {
	for _, s := range f.seen {
		if !s.current() {
			return true
		}
	}
	return false
}

func look(path string) stamp {
	s := stamp{path: path, read: time.Now()}
	if info, err := os.Stat(path); err == nil {
		s.info = info
	}
	return s
}

// current reports whether the file has certainly not changed since its read.
func (s stamp) current() bool {
	info, err := os.Stat(s.path)
	if err != nil {
		return s.info == nil
	}
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() &&
		s.info.ModTime().Equal(info.ModTime()) && s.read.Sub(info.ModTime()) > settle
}

// load reads all files again. It takes the stamp of each file before the read, so that a change in between is noticed
// the next time. If the configuration is unchanged, the present Config stays.
func (f *File) load() {
	f.seen = []stamp{look(f.path)}
	file, err := config.Load(f.path)
	if err != nil {
		f.current, f.failure = nil, invalid(err)
		return
	}
	c := f.build(file)
	c.revision = f.revision
	if f.current == nil || !reflect.DeepEqual(c, f.current) {
		f.revision++
		c.revision = f.revision
		f.current = c
		f.warn(file)
	}
	f.failure = nil
}

// warn logs keys that are in the file itself, where a backup or a shared screen may show them.
func (f *File) warn(file *config.File) {
	for _, key := range file.RawKeys() {
		f.log.Warn("an API key stands in the configuration itself; keep it in the environment and refer to it as ${NAME}",
			"file", f.path, "key", key)
	}
	for _, d := range file.NotInForce() {
		f.log.Warn(d.Message, "file", f.path, "key", d.Key, "code", "not_in_force")
	}
}

// invalid converts an error of the file to the error of work that needs it.
func invalid(err error) error {
	e := fault.From(err)
	out := fault.Wrap(err, fault.LocalConfigInvalid, "The local configuration cannot be used: %s", e.Msg)
	for k, v := range e.Details {
		out = out.With(k, v)
	}
	return out
}

func (f *File) build(file *config.File) *Config {
	c := &Config{
		models:    make(map[string][]string, len(file.Models)),
		providers: make(map[string]provider, len(file.Providers)),
		preferences: Preferences{
			OperatorName: file.OperatorName, Theme: file.UI.Theme, Timezone: file.UI.Timezone, Locale: file.UI.Locale,
		},
		limits: Limits(file.Limits), asksFirst: file.Projects.FirstLoad == config.FirstLoadAsks,
		toolRules: file.DefaultTools, budget: file.Budget,
	}
	for _, d := range file.NotInForce() {
		c.dormant = append(c.dormant, Dormant(d))
	}
	for alias, targets := range file.Models {
		c.models[alias] = targets
	}
	for name, p := range file.Providers {
		c.providers[name] = resolve(name, p, f.readScript)
	}
	return c
}

// readScript reads a script, with a path that may be relative to local.toml, and records its stamp.
func (f *File) readScript(path string) ([]byte, error) {
	path, missing := config.Expand(path)
	if len(missing) > 0 {
		return nil, fmt.Errorf("${%s} is not set", missing[0])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.path), path)
	}
	s := look(path)
	f.seen = append(f.seen, s)
	if s.info == nil || !s.info.Mode().IsRegular() {
		return nil, errors.New("there is no regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, f.maxScript+1))
	if err == nil && int64(len(data)) > f.maxScript {
		err = fmt.Errorf("it is larger than %d bytes", f.maxScript)
	}
	return data, err
}
