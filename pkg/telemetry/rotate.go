package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// rotating is a log file that is rotated when it is full: name becomes name.1, name.1 becomes name.2, and the oldest is
// removed. (The usual library for this never ends its goroutine for each file.)
type rotating struct {
	path    string
	limit   int64 // in bytes
	backups int

	mu   sync.Mutex // guards the rest
	file *os.File
	size int64
}

func openRotating(path string, limit int64, backups int) (*rotating, error) {
	r := &rotating{path: path, limit: limit, backups: backups}
	return r, r.open()
}

func (r *rotating) open() error {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	r.file, r.size = file, info.Size()
	return nil
}

// Write appends one record. If the rotation fails, it continues in the same file, because a too long log is better than
// a missing one.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return 0, fs.ErrClosed
	}
	if r.size > 0 && r.size+int64(len(p)) > r.limit {
		r.setAside()
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

func (r *rotating) setAside() {
	name := func(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }
	for i := r.backups - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	old := r.file
	if os.Rename(r.path, name(1)) != nil {
		return
	}
	if r.open() != nil {
		r.file = old // the open descriptor still works after the rename
		return
	}
	old.Close()
}

// Close closes the file; later writes fail.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
