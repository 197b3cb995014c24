// Package walk goes through a tree of files in parallel, leaving out what git ignores and what the operator denies.
//
// It follows no link, opens each folder relative to the space's root and each file relative to its folder, and passes over
// what cannot be read. The order of visits is not determined; who needs an order sorts.
//
// Goroutines: as many as workers, all ended when [Files] returns.
package walk

import (
	"context"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/services/tool-runner/internal/core/ignore"
	"kaged.dev/services/tool-runner/internal/core/paths"
)

// Folder is an open folder of the tree. It is valid during a visit.
type Folder struct {
	Path paths.Path
	dir  *os.File

	mu    sync.Mutex // guards users
	users int
}

// Open opens the file called name for reading without following a link or waiting. The caller closes the descriptor.
func (f *Folder) Open(name string) (int, error) {
	return unix.Openat(int(f.dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// Stat describes the file called name.
func (f *Folder) Stat(name string) (paths.Info, error) { return paths.Stat(f.dir, name) }

func (f *Folder) release() {
	f.mu.Lock()
	f.users--
	last := f.users == 0
	f.mu.Unlock()
	if last {
		f.dir.Close()
	}
}

// Options say what is visited.
type Options struct {
	// Workers is how many visit at once.
	Workers int
	// Rules are what git ignores in the folder the walk begins in.
	Rules *ignore.Dir
	// Space knows what the operator denies.
	Space *paths.Space
	// Want chooses files by their name and folder before they are visited; nil wants all. It is called concurrently.
	Want func(folder paths.Path, name string) bool
}

// Visit is called for regular files of one folder, by several goroutines at once.
type Visit func(ctx context.Context, folder *Folder, names []string)

// batch is how many files one visit gets, so that a large folder keeps all workers busy.
const batch = 64

// Files visits the files below start. It returns the context's error if that ended the walk, and the error that kept start
// itself from being read.
func Files(ctx context.Context, start paths.Path, opts Options, visit Visit) error {
	w := &walker{ctx: ctx, opts: opts, visit: visit, top: start}
	w.idle.L = &w.mu
	w.stack = []task{{path: start, rules: opts.Rules}}
	var workers sync.WaitGroup
	for range max(opts.Workers, 1) {
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
	ctx   context.Context
	opts  Options
	visit Visit
	top   paths.Path

	mu    sync.Mutex // guards what is below
	idle  sync.Cond  // work was added, or all is done
	stack []task
	busy  int
	err   error
}

// work does tasks until none is left and nobody can add one. The last one added is done first, so that few folders are open
// at a time.
func (w *walker) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.stack) == 0 && w.busy > 0 {
			w.idle.Wait()
		}
		if len(w.stack) == 0 {
			w.idle.Broadcast()
			return
		}
		t := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		w.busy++
		w.mu.Unlock()
		more := w.do(t)
		w.mu.Lock()
		w.busy--
		w.stack = append(w.stack, more...)
		if len(w.stack) > 0 || w.busy == 0 {
			w.idle.Broadcast()
		}
	}
}

func (w *walker) do(t task) []task {
	if t.folder != nil {
		defer t.folder.release()
		if w.ctx.Err() == nil {
			w.visit(w.ctx, t.folder, t.names)
		}
		return nil
	}
	if w.ctx.Err() != nil {
		return nil
	}
	return w.read(t)
}

// read lists a folder and returns what there is to do in it: subfolders first, because the last task is done first.
func (w *walker) read(t task) []task {
	fd, err := t.path.OpenFD()
	if err != nil {
		w.fail(t, err)
		return nil
	}
	folder := &Folder{Path: t.path, dir: os.NewFile(uintptr(fd), t.path.Abs()), users: 1}
	defer folder.release()
	entries, err := folder.dir.ReadDir(-1)
	if err != nil {
		w.fail(t, err)
	}
	rules := w.enter(folder, t.rules, entries, t.path != w.top)
	var tasks []task
	var names []string
	for _, e := range entries {
		kind := e.Type()
		if !kind.IsDir() && !kind.IsRegular() || rules.Ignored(e.Name(), kind.IsDir()) || w.denied(t.path, e.Name()) {
			continue
		}
		switch {
		case kind.IsDir():
			tasks = append(tasks, task{path: t.path.Join(e.Name()), rules: rules.Child(e.Name())})
		case w.opts.Want == nil || w.opts.Want(t.path, e.Name()):
			names = append(names, e.Name())
		}
	}
	for part := range slices.Chunk(names, batch) {
		folder.mu.Lock()
		folder.users++
		folder.mu.Unlock()
		tasks = append(tasks, task{folder: folder, names: part})
	}
	return tasks
}

// enter returns the rules of a folder with those it brings itself. What holds where the walk begins is known already.
func (w *walker) enter(folder *Folder, rules *ignore.Dir, entries []os.DirEntry, below bool) *ignore.Dir {
	if !below {
		return rules
	}
	own := false
	for _, e := range entries {
		switch e.Name() {
		case ignore.RepoName:
			rules = rules.Repo(folder.Path.Abs())
		case ignore.FileName:
			own = e.Type().IsRegular()
		}
	}
	if own {
		if fd, err := folder.Open(ignore.FileName); err == nil {
			rules = rules.Enter(ignore.ReadFD(fd))
		}
	}
	return rules
}

func (w *walker) denied(folder paths.Path, name string) bool {
	return w.opts.Space.Denies() && w.opts.Space.Denied(folder.Join(name).Abs())
}

// fail remembers an error about where the walk begins; others only leave something out.
func (w *walker) fail(t task, err error) {
	if t.path != w.top {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = t.path.Failure("searched", err)
}
