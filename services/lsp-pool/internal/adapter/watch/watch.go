// Package watch says which files below a root have changed, by any program.
//
// It watches folders with inotify. Events of one inotify instance come in order, so that a write to a cookie, a file in
// a private folder of the same instance, tells when all earlier events have been read: [Tree.Changes] misses no change
// that happened before its call. Where not all folders can be watched, and after the kernel dropped events, files are
// compared by their stamps instead.
//
// Folders of version control and of installed packages are left out.
//
// Goroutines: two per tree, a reader and a worker, which end with Close.
package watch

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// left are the folders that are not watched.
var left = map[string]bool{
	".git": true, ".hg": true, ".svn": true, ".jj": true, "node_modules": true, ".venv": true, "__pycache__": true,
	".cache": true, "target": true,
}

const (
	// queueCount bounds the events that wait; one in their place stands for those that are dropped.
	queueCount = 100_000
	// folderCount bounds the watched folders of a tree, fileCount the files that are known.
	folderCount = 8192
	fileCount   = 200_000
)

// Tree is a watched root.
type Tree struct {
	root    string
	cookies string // the private folder, "" where it cannot be made
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil where inotify cannot be had
	over    chan struct{}     // closed when the goroutine has ended

	queueing sync.Mutex // guards queue
	queue    []fsnotify.Event
	more     chan struct{} // holds a token while the queue may hold an event

	mu      sync.Mutex // guards the fields below
	files   map[string]lsp.Stamp
	folders map[string]bool
	changes map[string]int
	sweep   bool                 // watching missed events, or misses some folders
	always  bool                 // it misses some folders for good
	waiting map[string]chan bool // by cookie
	free    []*os.File           // cookies without an unread event
	made    int                  // how many cookies were made
}

// New watches the files below a root. It never fails: files in unwatched folders are compared.
func New(root string, log *slog.Logger) *Tree {
	t := &Tree{
		root: root, log: log, over: make(chan struct{}), more: make(chan struct{},
			1), files: map[string]lsp.Stamp{}, folders: map[string]bool{},
		changes: map[string]int{},
		waiting: map[string]chan bool{},
	}
	watcher, err := fsnotify.NewBufferedWatcher(1024)
	if err == nil {
		t.cookies, err = os.MkdirTemp("", "kaged-watch-")
	}
	if err == nil {
		err = watcher.Add(t.cookies)
	}
	if err != nil {
		log.Warn("files are compared before each question to a language server, because they cannot be watched", "root",
			root, "error", err)
		t.always = true
		if watcher != nil {
			_ = watcher.Close()
		}
		close(t.over)
	} else {
		t.watcher = watcher
		go t.run()
		go t.work()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan(root)
	clear(t.changes)
	return t
}

// run queues events. It never waits for t.mu: the watcher cannot remove a watch while an event of it is not taken.
func (t *Tree) run() {
	defer close(t.more)
	for {
		var e fsnotify.Event
		var ok bool
		select {
		case e, ok = <-t.watcher.Events:
		case _, ok = <-t.watcher.Errors: // a zero event: the kernel dropped some
		}
		if !ok {
			return
		}
		t.queueing.Lock()
		if len(t.queue) >= queueCount && e.Name != "" && filepath.Dir(e.Name) != t.cookies {
			e = fsnotify.Event{}
		}
		if n := len(t.queue); e.Name != "" || n == 0 || t.queue[n-1].Name != "" {
			t.queue = append(t.queue, e)
		}
		t.queueing.Unlock()
		select {
		case t.more <- struct{}{}:
		default:
		}
	}
}

// work handles queued events in their order.
func (t *Tree) work() {
	defer close(t.over)
	for range t.more {
		t.queueing.Lock()
		queue := t.queue
		t.queue = nil
		t.queueing.Unlock()
		for _, e := range queue {
			t.event(e)
		}
	}
}

func (t *Tree) event(e fsnotify.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Name == "" { // the events of cookies may be among the dropped
		t.sweep = true
		for cookie := range t.waiting {
			t.wake(cookie, false)
		}
		return
	}
	if filepath.Dir(e.Name) == t.cookies {
		if e.Has(fsnotify.Write) {
			t.wake(e.Name, true)
		}
		return
	}
	if e.Op == fsnotify.Chmod || paths.IsTemp(filepath.Base(e.Name)) {
		return
	}
	t.look(e.Name)
}

// wake ends the wait for a cookie. own says that its event was read. t.mu is held.
func (t *Tree) wake(cookie string, own bool) {
	if c := t.waiting[cookie]; c != nil {
		c <- own
		delete(t.waiting, cookie)
	}
}

// look notes the present state of a path. t.mu is held.
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

// changed notes a change. A file that was deleted and made again since the last call is changed. t.mu is held.
func (t *Tree) changed(path string, kind int) {
	if was, ok := t.changes[path]; ok && was == lsp.Created && kind == lsp.Changed {
		kind = lsp.Created
	}
	t.changes[path] = kind
}

// renew looks at a folder that may have taken the place of another: its watches may be those of the other. t.mu is
// held.
func (t *Tree) renew(folder string) {
	for known := range t.folders {
		if paths.Below(known, folder) {
			delete(t.folders, known)
			_ = t.watcherRemove(known)
		}
	}
	t.scan(folder)
	for file := range t.files {
		if !paths.Below(file, folder) {
			continue
		}
		if _, err := os.Lstat(file); err != nil {
			t.gone(file)
		}
	}
}

// gone notes that a path is no more, with everything below it. t.mu is held.
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
			delete(t.folders, folder)
			_ = t.watcherRemove(folder)
		}
	}
	for file := range t.files {
		if paths.Below(file, path) {
			delete(t.files, file)
			t.changed(file, lsp.Deleted)
		}
	}
}

func (t *Tree) watcherRemove(folder string) error {
	if t.watcher == nil {
		return nil
	}
	return t.watcher.Remove(folder)
}

// scan watches a folder and those below, and notes their files. A folder is watched before it is read, so that
// no change falls between.
// t.mu is held.
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

// watch watches a folder. t.mu is held.
func (t *Tree) watch(folder string) {
	if t.folders[folder] {
		return
	}
	if t.watcher != nil && len(t.folders) < folderCount {
		err := t.watcher.Add(folder)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.folders[folder] = err == nil
			return
		}
	}
	t.folders[folder] = true
	t.always = true
}

// Changes implements core.Tree.
func (t *Tree) Changes(ctx context.Context) []lsp.Change {
	t.barrier(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
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

// barrier waits until every event of before has been read.
func (t *Tree) barrier(ctx context.Context) {
	if t.watcher == nil {
		return
	}
	cookie, read, err := t.takeCookie()
	if err == nil {
		_, err = cookie.WriteAt([]byte{0}, 0)
	}
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sweep = true
		t.dropCookie(cookie)
		return
	}
	fresh := false
	select {
	case fresh = <-read:
	case <-t.over:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !fresh {
		t.dropCookie(cookie) // its event may come later
		return
	}
	t.free = append(t.free, cookie)
}

// takeCookie returns a cookie, and the channel that tells when its next write has been read. To write an existing
// file takes a tenth of the time that a new one takes.
func (t *Tree) takeCookie() (cookie *os.File, read chan bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		cookie, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.made++
		cookie, err = os.OpenFile(filepath.Join(t.cookies, strconv.Itoa(t.made)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
	}
	read = make(chan bool, 1)
	t.waiting[cookie.Name()] = read
	return cookie, read, nil
}

// dropCookie removes a cookie. t.mu is held.
func (t *Tree) dropCookie(cookie *os.File) {
	if cookie != nil {
		delete(t.waiting, cookie.Name())
		_ = cookie.Close()
		_ = os.Remove(cookie.Name())
	}
}

// compare looks at every file. t.mu is held.
func (t *Tree) compare() {
	known := maps.Clone(t.files)
	t.scan(t.root)
	for path := range known {
		if _, err := os.Lstat(path); err != nil {
			t.gone(path)
		}
	}
}

// Close ends the watch and returns when the goroutine has ended.
func (t *Tree) Close() {
	if t.watcher != nil {
		_ = t.watcher.Close()
	}
	<-t.over
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cookie := range t.free {
		_ = cookie.Close()
	}
	t.free = nil
	if t.cookies != "" {
		_ = os.RemoveAll(t.cookies)
	}
}

func stamp(info fs.FileInfo) lsp.Stamp {
	s := lsp.Stamp{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Ino = st.Ino
	}
	return s
}
