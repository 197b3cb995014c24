package change

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
)

// Version tells whether a file is unchanged since it was read: its identity, its size, and the time
// of its last change. The zero Version is that of a missing file.
type Version struct {
	Ino         uint64
	Size, Mtime int64 // bytes, nanoseconds since the Unix epoch
}

// VersionOf returns the version of a file from the info of [Path.Open].
func VersionOf(info fs.FileInfo) Version {
	v := Version{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		v.Ino = st.Ino
	}
	return v
}

func versionOf(st *unix.Stat_t) Version {
	return Version{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}
}

// Change is the planned change of one place.
type Change struct {
	At paths.Path
	// Was is the version of the file when its content was read; the zero Version expects a missing
	// file.
	Was Version
	// Data is the new content, never nil; nil keeps the content.
	Data []byte
	// Remove says that the file goes away, Move where it goes to.
	Remove bool
	Move   *paths.Path
	// Like names another file from which the new one takes mode, owner and attributes. Nil takes
	// those of the replaced file, if there is one. With Like, the existing file makes way for a new
	// one, as if it were removed.
	Like *paths.Path
	// Plain says that the file loses its set-id bits and its capabilities if it gets new content, as the system takes
	// them from a file that an ordinary process writes to. A failed change of a file in place may also take them.
	Plain bool
}

// batch is a set of changes on its way.
type batch struct {
	id      string
	journal *Journal
	steps   []*step
	folders map[folderKey]*folder
	missing []folderKey   // folders that are to be made, the outer before the inner
	made    []folderKey   // those that were made
	left    []*step       // those that could not be taken back
	roots   []*paths.Root // opened by Recover, which has no space
}

type folderKey struct {
	root *paths.Root
	rel  string
}

// folder is an open folder. Its descriptor stays on it wherever it is moved, and follows no link that takes its name.
type folder struct {
	key folderKey
	fd  int // -1 until it is made

	once sync.Once // guards the fields below, which settle sets
	kind int64     // the kind of the file system
	err  error
}

// plan turns changes into steps and opens the folders that are there.
func (b *batch) plan(changes []Change) error {
	for i := range changes {
		c := &changes[i]
		at, err := b.folder(c.At)
		if err != nil {
			return err
		}
		s := &step{path: c.At, folder: at, name: path.Base(c.At.Rel), was: c.Was, data: c.Data, plain: c.Plain}
		s.temp = paths.TempName(b.id + "-" + strconv.Itoa(i))
		s.source, s.sourceName = s.folder, s.name
		switch {
		case c.Remove:
			s.kind = remove
		case c.Move != nil:
			s.kind, s.to, s.toName = move, c.Move, path.Base(c.Move.Rel)
			if s.toFolder, err = b.folder(*c.Move); err != nil {
				return err
			}
			if c.Data != nil {
				b.steps = append(b.steps, s)
				s = &step{
					kind: replace, path: *c.Move, folder: s.toFolder, name: s.toName, temp: s.temp, was: c.Was, data: c.Data,
					source: s.folder, sourceName: s.name, plain: c.Plain,
				}
			}
		case c.Was == Version{}:
			s.kind, s.source = create, nil
		default:
			s.kind = replace
		}
		if c.Like != nil {
			if s.source, err = b.folder(*c.Like); err != nil {
				return err
			}
			s.sourceName, s.apart = path.Base(c.Like.Rel), true
		}
		b.steps = append(b.steps, s)
	}
	return nil
}

// folder returns the folder p is in, open if it is there.
func (b *batch) folder(p paths.Path) (*folder, error) {
	if p.Rel == "." {
		return nil, p.NotRegular()
	}
	key := folderKey{p.Root(), path.Dir(p.Rel)}
	if f := b.folders[key]; f != nil {
		return f, nil
	}
	fd, err := beneath.Open(p.Root().FD(), key.rel, beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = -1, b.lacking(key)
	}
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fault.Wrap(err, fault.FileNotRegular, "A part of the path %s is not a folder.", p.Show).
			With("path", p.Show)
	}
	if err != nil {
		return nil, p.Failure("written", err)
	}
	f := &folder{key: key, fd: fd}
	b.folders[key] = f
	return f, nil
}

// lacking notes which folders of a path are to be made.
func (b *batch) lacking(key folderKey) error {
	for i := 1; i <= len(key.rel); i++ {
		if i < len(key.rel) && key.rel[i] != '/' {
			continue
		}
		part := folderKey{key.root, key.rel[:i]}
		fd, err := beneath.Open(part.root.FD(), part.rel, beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.ENOENT):
			b.missing = append(b.missing, part)
		case err != nil:
			return err
		default:
			unix.Close(fd)
		}
	}
	return nil
}

// commit makes the staged files visible.
func (b *batch) commit(before func(int)) error {
	for i, s := range b.steps {
		before(i)
		if err := s.do(b); err != nil {
			return b.undo(i+1, err)
		}
		crash.At(crash.FileCommitted)
	}
	if err := b.journal.done(b.id); err != nil {
		return b.undo(len(b.steps), b.steps[0].path.Failure("changed", err))
	}
	crash.At(crash.FilesCommitted)
	b.each(func(i int) { b.steps[i].finish() })
	return nil
}

// overwriting notes that the file of a step is written over from now on.
func (b *batch) overwriting(s *step) error {
	s.begun = time.Now().UnixNano()
	if err := b.journal.overwriting(b.id, slices.Index(b.steps, s), s.begun); err != nil {
		return err
	}
	crash.At(crash.FileBegun)
	return nil
}

// undo takes back the first n steps after err, and all staged files, and returns err. If that fails
// too, the error names the remaining changes; the temporary file stays then, because it may be the
// only copy. Temporary files are removed only after all steps are taken back: a missing one tells
// [Recover] that the set was at its end.
func (b *batch) undo(n int, err error) error {
	var left *step
	var cause error
	undone := b.steps[n:len(b.steps):len(b.steps)]
	for i := n - 1; i >= 0; i-- {
		if failed := b.steps[i].undo(); failed != nil {
			left, cause = b.steps[i], failed
			b.left = append(b.left, left)
			continue
		}
		undone = append(undone, b.steps[i])
		crash.At(crash.FileTakenBack)
	}
	if n > 0 && len(undone) > 0 {
		b.steps = undone
		b.journal.undone(b)
		crash.At(crash.FilesTakenBack)
	}
	for _, s := range undone {
		s.finish()
	}
	for i := len(b.made) - 1; i >= 0; i-- {
		removeFolder(b.made[i])
	}
	if left == nil {
		return err
	}
	return fault.Wrap(errors.Join(err, cause), fault.FileIO,
		"The change failed, and %s could not be put back as it was: %s. Look for it under %s beside it.",
		left.path.Show, paths.Reason(cause), left.temp).
		With("path", left.path.Show)
}

// removeFolder removes a folder if it is empty.
func removeFolder(key folderKey) {
	parent, err := beneath.Open(key.root.FD(), path.Dir(key.rel), beneath.Path|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(parent)
	unix.Unlinkat(parent, path.Base(key.rel), unix.AT_REMOVEDIR)
}

func (b *batch) close() {
	for _, f := range b.folders {
		if f.fd >= 0 {
			unix.Close(f.fd)
		}
	}
	for _, r := range b.roots {
		r.Close()
	}
}

// Taken is the refusal to create an existing file.
func Taken(p paths.Path) error {
	return fault.New(fault.FileExists, "There is already something at %s; use file.write to overwrite a file.", p.Show).
		With("path", p.Show)
}

// held is the refusal to take a file away that the cage grants by itself.
func held(p paths.Path) error {
	return fault.New(fault.CapabilityDenied, "%s can be changed, and neither removed nor moved, because the agent's "+
		"cage grants this very file.", p.Show).
		With("path", p.Show).
		With("required", "rw:fs:"+p.Show)
}

// changed is the refusal to overwrite a file that has changed meanwhile.
func changed(p paths.Path) error {
	return fault.New(fault.FileChangedSinceRead, "%s has changed since it was read; read it again.", p.Show).
		With("path", p.Show)
}
