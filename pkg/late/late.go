// Package late keeps audit records without an answer to carry them until the next service has stored them.
//
// A workspace makes records between calls: an idle language server stops, a debug session ends with its run. A [Log]
// gives each record an id, keeps it in a file, and repeats it to each watcher until it is acknowledged. A receiver
// knows a repeated record by its id. See ADR 0126.
package late

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
)

// MaxRecords is the maximum number of records of a log. Beyond it the oldest is dropped, and logged.
const MaxRecords = 4096

// Record is a late record.
type Record struct {
	// ID is a ULID.
	ID string `json:"id"`
	// Session is the session of the record, Run its run, or empty.
	Session string `json:"session"`
	Run     string `json:"run,omitempty"`
	// Project is the project of a record about more than its session, such as a language server that sessions share. The
	// session is then the last of them, and may have ended.
	Project string          `json:"project,omitempty"`
	Record  contract.Record `json:"record"`
}

// Log keeps late records until they are acknowledged. It is safe for concurrent use.
type Log struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below
	records []Record   // the oldest first
	changed chan struct{}
}

// New returns an empty log in a file. An empty path means memory only. It does not touch the file; see [Log.Load].
func New(path string, log *slog.Logger) *Log {
	return &Log{path: path, log: log, changed: make(chan struct{})}
}

// Load reads the records of an earlier process. An unreadable file counts as empty, and is logged.
func (l *Log) Load() {
	if l.path == "" {
		return
	}
	data, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var kept []Record
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		l.log.Error("the late audit records of the last process cannot be read", "path", l.path, "error", err)
		return
	}
	l.Add(kept...)
}

// Add adds records that the log does not have. A record without an id gets one. When Add returns, they are in the file.
func (l *Log) Add(records ...Record) {
	if len(records) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if r.ID == "" {
			r.ID = ident.New()
		}
		if !slices.ContainsFunc(l.records, func(old Record) bool { return old.ID == r.ID }) {
			l.records = append(l.records, r)
		}
	}
	if over := len(l.records) - MaxRecords; over > 0 {
		for _, r := range l.records[:over] {
			l.log.Warn("a late audit record is dropped: too many wait", "session_id", r.Session, "type", r.Record.Type,
				"payload", r.Record.Payload)
		}
		l.records = slices.Delete(l.records, 0, over)
	}
	l.save()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Told removes an acknowledged record. An unknown id is ignored.
func (l *Log) Told(id string) { l.Take(func(r Record) bool { return r.ID == id }) }

// Take removes records and returns them.
func (l *Log) Take(wanted func(Record) bool) (taken []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = slices.DeleteFunc(l.records, func(r Record) bool {
		if !wanted(r) {
			return false
		}
		taken = append(taken, r)
		return true
	})
	if len(taken) > 0 {
		l.save()
	}
	return taken
}

// List returns the records, the oldest first.
func (l *Log) List() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// Changed returns a channel that is closed when records are added.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Watch passes each record to tell, once, until ctx ends or last is closed. Records from before the close of last are
// passed in any case. It returns the errors of tell.
func (l *Log) Watch(ctx context.Context, last <-chan struct{}, tell func(Record) error) error {
	told := map[string]bool{}
	for over := false; ; {
		changed := l.Changed()
		for _, r := range l.List() {
			if told[r.ID] {
				continue
			}
			told[r.ID] = true
			if err := tell(r); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-last:
			over = true
		case <-ctx.Done():
			return nil
		}
	}
}

// save replaces the file. l.mu is held.
func (l *Log) save() {
	if l.path == "" {
		return
	}
	if err := write(l.path, l.records); err != nil {
		l.log.Error("late audit records cannot be kept; a restart will not know them", "path", l.path, "error", err)
	}
}

// write replaces a file completely or not at all, also after a power failure.
func write(path string, records []Record) error {
	data, err := json.Marshal(records)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
