// Package walk goes through a tree of files in parallel, without ignored and denied files.
//
// It follows no link, opens each folder relative to the space's root and each file relative to its folder, and skips
// unreadable ones. The order of visits is not determined; a caller that needs an order sorts.
//
// Goroutines: as many as workers, all ended when [Files] returns.
package walk

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/workspace/ignore"
	"kaged.dev/pkg/workspace/paths"
)

// Folder is an open folder of the tree. It is valid during a visit.
type Folder struct {
	Path paths.Path
	fd   int

	users atomic.Int32
}

// Open opens the file called name for reading without following a link or waiting. The caller closes the descriptor.
func (f *Folder) Open(name string) (int, error) {
	return unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// Stat describes the file called name.
func (f *Folder) Stat(name string) (paths.Info, error) { return paths.StatAt(f.fd, name) }

func (f *Folder) release() {
	if f.users.Add(-1) == 0 {
		unix.Close(f.fd)
	}
}

// Options select the visited files.
type Options struct {
	// Workers is how many visit at once.
	Workers int
	// Rules are git's rules in the folder where the walk begins.
	Rules *ignore.Dir
	// Space knows the denied paths.
	Space *paths.Space
	// Want chooses files by their name and folder before they are visited; nil wants all. It is called concurrently.
	Want func(folder paths.Path, name string) bool
}

// Visit is called for regular files of one folder, by several goroutines at once.
type Visit func(ctx context.Context, folder *Folder, names []string)

// batch is how many files one visit gets, so that a large folder can keep all workers busy.
const batch = 64

// Files visits the files below start. It returns the context's error if that ended the walk, and the error that kept
// start itself from being read.
//
// A worker visits the files of a small folder itself, and leaves other work for the first free worker. Handing each
// folder's files around costs more in wake-ups than reading them.
func Files(ctx context.Context, start paths.Path, opts Options, visit Visit) error {
	w := &walker{ctx: ctx, opts: opts, visit: visit, top: start, workers: max(opts.Workers, 1)}
	w.pushed.L = &w.mu
	w.tasks = []task{{path: start, rules: opts.Rules}}
	var workers sync.WaitGroup
	for range w.workers {
		workers.Go(w.work)
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.err
}

// task is a folder to be read, or files of one that was.
type task struct {
	path  paths.Path
	rules *ignore.Dir

	folder *Folder
	names  []string
}

type walker struct {
	ctx     context.Context
	opts    Options
	visit   Visit
	top     paths.Path
	workers int

	mu     sync.Mutex // guards the fields below
	pushed sync.Cond  // there are tasks, or no more to come
	tasks  []task
	idle   int // workers without a task
	done   bool
	err    error
}

// worker is one goroutine's part of a walk, with memory it uses again and again.
type worker struct {
	*walker
	found   []task
	entries []entry
	names   []string
	buf     *[listingSize]byte
}

// work does tasks until all are done and no worker can add one.
func (w *walker) work() {
	own := &worker{walker: w, buf: listings.Get().(*[listingSize]byte)}
	defer listings.Put(own.buf)
	for {
		t, ok := w.take()
		if !ok {
			return
		}
		own.do(t)
	}
}

// take returns the task that was added last, so that few folders wait at a time; false when all is done.
func (w *walker) take() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle++
	for len(w.tasks) == 0 && !w.done {
		if w.idle == w.workers {
			w.done = true
			w.pushed.Broadcast()
			break
		}
		w.pushed.Wait()
	}
	if len(w.tasks) == 0 {
		return task{}, false
	}
	w.idle--
	last := len(w.tasks) - 1
	t := w.tasks[last]
	w.tasks[last] = task{}
	w.tasks = w.tasks[:last]
	return t, true
}

// push adds tasks.
func (w *walker) push(tasks []task) {
	if len(tasks) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = append(w.tasks, tasks...)
	for range min(w.idle, len(tasks)) {
		w.pushed.Signal()
	}
}

func (w *worker) do(t task) {
	if t.folder != nil {
		defer t.folder.release()
		if w.ctx.Err() == nil {
			w.visit(w.ctx, t.folder, t.names)
		}
		return
	}
	if w.ctx.Err() == nil {
		w.read(t)
	}
}

// read lists a folder piece by piece and visits its files; its folders become tasks.
func (w *worker) read(t task) {
	fd, err := t.path.OpenFD()
	if err != nil {
		w.fail(t, err)
		return
	}
	folder := &Folder{Path: t.path, fd: fd}
	folder.users.Store(1)
	defer folder.release()
	rules := t.rules
	list := listing{fd: fd, buf: w.buf[:]}
	for first, done := true, false; !done && w.ctx.Err() == nil; first = false {
		w.entries, done, err = list.next(w.entries[:0])
		if err != nil {
			w.fail(t, err)
		}
		if first && t.path != w.top {
			// The rules of the folder where the walk begins are known already.
			rules = enter(folder, rules, w.entries, done)
		}
		w.sort(folder, rules)
	}
}

// sort goes through the entries of a folder: its folders, and its files beyond a batch, become tasks.
func (w *worker) sort(folder *Folder, rules *ignore.Dir) {
	names, found := w.names[:0], w.found[:0]
	for i, e := range w.entries {
		if i%batch == 0 && w.ctx.Err() != nil {
			return // the rules may be slow ones
		}
		if e.kind == otherKind || rules.Ignored(e.name, e.kind == folderKind) || w.denied(folder.Path, e.name) {
			continue
		}
		switch {
		case e.kind == folderKind:
			found = append(found, task{path: folder.Path.Join(e.name), rules: rules.Child(e.name)})
		case paths.IsTemp(e.name):
			// It is only just being written.
		case w.opts.Want == nil || w.opts.Want(folder.Path, e.name):
			names = append(names, e.name)
		}
	}
	first := names[:min(batch, len(names))]
	for part := range slices.Chunk(names[len(first):], batch) {
		folder.users.Add(1)
		found = append(found, task{folder: folder, names: slices.Clone(part)})
	}
	w.push(found)
	if len(first) > 0 {
		w.visit(w.ctx, folder, first)
	}
	clear(found)
	w.names, w.found = names[:0], found[:0]
}

// enter returns the rules of a folder with those it brings itself. entries are its first ones, all if that is said.
func enter(folder *Folder, rules *ignore.Dir, entries []entry, all bool) *ignore.Dir {
	repo, own := !all, !all
	for _, e := range entries {
		switch e.name {
		case ignore.RepoName:
			repo = true
		case ignore.FileName:
			own = e.kind == fileKind
		}
	}
	if repo {
		rules = rules.Repo(folder.Path.Abs())
	}
	if own {
		if fd, err := folder.Open(ignore.FileName); err == nil {
			rules = rules.Enter(ignore.ReadFD(fd))
		}
	}
	return rules
}

// entry is a name in a folder and its kind.
type entry struct {
	name string
	kind kind
}

type kind uint8

const (
	otherKind kind = iota // not visited: a link, a pipe, a socket, a device
	fileKind
	folderKind
)

func statKind(dir int, name string) kind {
	switch info, err := paths.StatAt(dir, name); {
	case err != nil:
		return otherKind
	case info.Mode.IsDir():
		return folderKind
	case info.Mode.IsRegular():
		return fileKind
	}
	return otherKind
}

// listingSize is how much of a folder is read at once: some thousand names.
const listingSize = 64 << 10

var listings = sync.Pool{New: func() any { return new([listingSize]byte) }}

func (w *walker) denied(folder paths.Path, name string) bool {
	return w.opts.Space.Denies() && w.opts.Space.Denied(folder.Join(name).Abs())
}

// fail remembers an error about the folder where the walk begins; other errors only leave files out.
func (w *walker) fail(t task, err error) {
	if t.path != w.top {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = t.path.Failure("searched", err)
}
