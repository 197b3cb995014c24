// Package watch finds the files below a root that any program has changed.
//
// On Linux it watches folders with inotify. The kernel queues the event of a change before the system call of the
// change returns. [Tree.Changes] reads the events in the queue at the time of its call, and so misses no earlier
// change: a query waits for no other goroutine, and costs one system call in a project without changes. If not all
// folders can be watched, if the kernel dropped events, and on other systems, the stamps of the files are compared
// instead.
//
// Folders of version control and of installed packages are left out.
//
// Goroutines: one per tree with inotify, which reads events between queries, so that the kernel's queue does not
// overflow. It ends with Close.
package watch

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// left are the folders that are not watched.
var left = map[string]bool{
	".git": true, ".hg": true, ".svn": true, ".jj": true, "node_modules": true, ".venv": true, "__pycache__": true,
	".cache": true, "target": true,
}

const (
	// folderCount is the maximum number of watched folders of a tree, fileCount the maximum number of known files.
	folderCount = 8192
	fileCount   = 200_000
	// readEvery is the minimum time between two reads outside queries, because a build that writes files continuously
	// would cause a read for each.
	readEvery = 100 * time.Millisecond
)

// watcher watches folders. Only one method at a time is called, apart from wait.
type watcher interface {
	// add starts the watch of a folder. It fails with fs.ErrNotExist for a missing folder.
	add(folder string) error
	// remove ends the watch of a folder.
	remove(folder string)
	// read passes every event before its call to handle, in order. complete is false if the kernel dropped some.
	read(handle func(path string)) (complete bool)
	// wait returns true when there are events, and false after close.
	wait() bool
	close()
}

// Tree is a watched root.
type Tree struct {
	root    string
	watcher watcher // nil on systems without inotify
	done    chan struct{}
	over    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	files   map[string]lsp.Stamp
	folders map[string]bool
	changes map[string]int
	sweep   bool // the watcher missed events
	always  bool // some folders cannot be watched
}

// New watches the files below a root. It never fails: files in folders that cannot be watched are compared.
func New(root string, log *slog.Logger) *Tree {
	t := &Tree{
		root: root, done: make(chan struct{}), files: map[string]lsp.Stamp{}, folders: map[string]bool{},
		changes: map[string]int{},
	}
	w, err := newWatcher(root)
	if err != nil {
		log.Warn("files are compared before each question to a language server, because they cannot be watched", "root",
			root, "error", err)
		t.always = true
	}
	t.watcher = w
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan(root)
	clear(t.changes)
	if t.watcher != nil {
		t.over.Go(t.run)
	}
	return t
}

// run reads events between queries.
func (t *Tree) run() {
	for t.watcher.wait() {
		t.mu.Lock()
		t.read()
		t.mu.Unlock()
		select {
		case <-time.After(readEvery):
		case <-t.done:
		}
	}
}

// read handles the queued events. t.mu is held.
func (t *Tree) read() {
	complete := t.watcher.read(func(path string) {
		if !paths.IsTemp(filepath.Base(path)) {
			t.look(path)
		}
	})
	if !complete {
		t.sweep = true
	}
}

// look records the present state of a path. t.mu is held.
func (t *Tree) look(path string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		t.gone(path)
	case info.IsDir():
		if !left[info.Name()] {
			t.renew(path)
		}
	case info.Mode().IsRegular():
		t.saw(path, info)
	default: // links are not followed
		t.gone(path)
	}
}

// saw compares a file with its known stamp. t.mu is held.
func (t *Tree) saw(path string, info fs.FileInfo) {
	was, known := t.files[path]
	now := stamp(info)
	switch {
	case known && was == now:
		return
	case known:
		t.changed(path, lsp.Changed)
	case len(t.files) >= fileCount:
		return
	default:
		t.changed(path, lsp.Created)
	}
	t.files[path] = now
}

// changed records a change. A file that was deleted and created again since the last call counts as changed. t.mu is
// held.
func (t *Tree) changed(path string, kind int) {
	if was, ok := t.changes[path]; ok && was == lsp.Created && kind == lsp.Changed {
		kind = lsp.Created
	}
	t.changes[path] = kind
}

// renew scans a folder that may have replaced another one: its watches may belong to the other. t.mu is held.
func (t *Tree) renew(folder string) {
	for known := range t.folders {
		if paths.Below(known, folder) {
			t.unwatch(known)
		}
	}
	t.scan(folder)
	for file := range t.files {
		if !paths.Below(file, folder) {
			continue
		}
		if !isFile(file) {
			t.gone(file)
		}
	}
}

// isFile reports whether the path is a regular file.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// gone records that a path was removed, with everything below it. t.mu is held.
func (t *Tree) gone(path string) {
	if _, ok := t.files[path]; ok {
		delete(t.files, path)
		t.changed(path, lsp.Deleted)
		return
	}
	if !t.folders[path] {
		return
	}
	for folder := range t.folders {
		if paths.Below(folder, path) {
			t.unwatch(folder)
		}
	}
	for file := range t.files {
		if paths.Below(file, path) {
			delete(t.files, file)
			t.changed(file, lsp.Deleted)
		}
	}
}

// unwatch ends the watch of a folder. t.mu is held.
func (t *Tree) unwatch(folder string) {
	delete(t.folders, folder)
	if t.watcher != nil {
		t.watcher.remove(folder)
	}
}

// scan watches a folder and those below, and records their files. It watches a folder before it reads it, so that no
// change is missed in between. t.mu is held.
func (t *Tree) scan(folder string) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() {
			if path != t.root && left[d.Name()] {
				return fs.SkipDir
			}
			t.watch(path)
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && !paths.IsTemp(d.Name()) {
			t.saw(path, info)
		}
		return nil
	})
}

// watch starts the watch of a folder. t.mu is held.
func (t *Tree) watch(folder string) {
	if t.folders[folder] {
		return
	}
	if t.watcher != nil && len(t.folders) < folderCount {
		err := t.watcher.add(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.folders[folder] = err == nil
			return
		}
	}
	t.folders[folder] = true
	t.always = true
}

// Changes implements core.Tree.
func (t *Tree) Changes(context.Context) []lsp.Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watcher != nil {
		t.read()
	}
	if t.sweep || t.always {
		t.sweep = false
		t.compare()
	}
	list := make([]lsp.Change, 0, len(t.changes))
	for path, kind := range t.changes {
		list = append(list, lsp.Change{Path: path, Kind: kind})
	}
	clear(t.changes)
	return list
}

// compare compares every file. t.mu is held.
func (t *Tree) compare() {
	known := maps.Clone(t.files)
	t.scan(t.root)
	for path := range known {
		if !isFile(path) {
			t.gone(path)
		}
	}
}

// Close ends the watch and returns when the goroutine has ended.
func (t *Tree) Close() {
	if t.watcher == nil {
		return
	}
	close(t.done)
	t.watcher.close()
	t.over.Wait()
}

func stamp(info fs.FileInfo) lsp.Stamp {
	s := lsp.Stamp{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Ino = st.Ino
	}
	return s
}
