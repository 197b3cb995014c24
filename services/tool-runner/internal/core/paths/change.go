package paths

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Version tells whether a file is still the one that was looked at: which one it is, its size, and when its content last
// changed. The zero Version is that of nothing.
type Version struct {
	Ino         uint64
	Size, Mtime int64 // bytes, nanoseconds since the Unix epoch
}

// VersionOf returns the version of a file by what [Path.Open] said about it.
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

// Change is what is to become of one place.
type Change struct {
	At Path
	// Was is the file as it was when its content was read; the zero Version says that nothing is there.
	Was Version
	// Data is the new content, never nil; nil keeps the content.
	Data []byte
	// Remove says that the file goes away, Move where it goes to.
	Remove bool
	Move   *Path
	// Like names another file the new one takes mode, owner and attributes from. Nil says that it takes those of the file it replaces,
	// if there is one. With Like, what is there makes way for a file of its own, as if it were removed.
	Like *Path
}

// Apply makes all changes, in their order, or none. It fails, and leaves everything as it was, with
// file_changed_since_read if a file is not what Was says, also if it became so while Apply was at it; with file_exists if
// there is something where a new file is to be; with file_not_regular or file_io as the system refuses.
//
// Each file is replaced at one moment: who opens it gets the old content or the whole new one. A file keeps its mode, its
// extended attributes and, where the system allows it, its owner; a new one obeys the umask. Missing parent folders are made.
// Everything that can fail is done first, beside the files and under names of our own; then come the renames, one after the
// other, which is how long somebody else can see some files changed and others not. The originals are kept until the last one
// succeeded. A process that is killed in between leaves a half-made set behind, which [Recover] takes back.
//
// A file with several hard links, one that is to be changed in place ([Path.InPlace]), or one whose owner or attributes cannot be
// passed on to a new file, is overwritten in place, because replacing it would part it from what it is. A reader may then see it
// half written; killed in between, it is restored by Recover, unless somebody has changed it since.
//
// What is written survives the death of any process. A power failure may take back the last seconds' changes, or part of a
// set, but leaves no file empty or torn that had content; see [settle].
func Apply(changes ...Change) error { return apply(changes, func(int) {}) }

// apply calls before ahead of each step that can be seen.
func apply(changes []Change, before func(step int)) error {
	if len(changes) == 0 {
		return nil
	}
	b := &batch{id: ident.New(), journal: changes[0].At.root.journal, folders: map[folderKey]*folder{}}
	defer b.close()
	if err := b.plan(changes); err != nil {
		return err
	}
	if err := b.journal.begin(b); err != nil {
		return changes[0].At.Failure("changed", err)
	}
	err := b.stage()
	if err == nil {
		err = b.journal.staged(b)
	}
	if err == nil {
		crash.At(crash.FilesStaged)
		err = b.commit(before)
	} else {
		err = b.undo(0, err)
	}
	b.journal.end(b.id)
	return err
}

// batch is a set of changes on its way.
type batch struct {
	id      string
	journal *Journal
	steps   []*step
	folders map[folderKey]*folder
	missing []folderKey // folders that are to be made, the outer before the inner
	made    []folderKey // those that were made
	roots   []*root     // opened by Recover, which has no space
}

type folderKey struct {
	root *root
	rel  string
}

// folder is an open folder. Its descriptor stays on it wherever it is moved, and follows no link that takes its name.
type folder struct {
	key folderKey
	fd  int // -1 until it is made
}

// plan turns changes into steps and opens the folders that are there.
func (b *batch) plan(changes []Change) error {
	for i := range changes {
		c := &changes[i]
		at, err := b.folder(c.At)
		if err != nil {
			return err
		}
		s := &step{path: c.At, folder: at, name: path.Base(c.At.Rel), was: c.Was, data: c.Data}
		s.temp = ".kaged-" + b.id + "-" + strconv.Itoa(i) + tempSuffix
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
					source: s.folder, sourceName: s.name,
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
func (b *batch) folder(p Path) (*folder, error) {
	if p.Rel == "." {
		return nil, p.notRegular()
	}
	key := folderKey{p.root, path.Dir(p.Rel)}
	if f := b.folders[key]; f != nil {
		return f, nil
	}
	fd, err := openBeneath(p.root.fd, key.rel, oPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		fd, err = -1, b.lacking(key)
	}
	if err == unix.ENOTDIR {
		return nil, fault.Wrap(err, fault.FileNotRegular, "A part of the path %s is not a folder.", p.Show).With("path", p.Show)
	}
	if err != nil {
		return nil, p.Failure("written", err)
	}
	f := &folder{key, fd}
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
		fd, err := openBeneath(part.root.fd, part.rel, oPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		switch {
		case err == unix.ENOENT:
			b.missing = append(b.missing, part)
		case err != nil:
			return err
		default:
			unix.Close(fd)
		}
	}
	return nil
}

// commit makes what was staged visible.
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
	for _, s := range b.steps {
		s.finish()
	}
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

// undo takes back the first n steps after err, and everything that was staged, and returns err. Where that fails too, it says
// what could not be taken back; the temporary file stays then, because it may be the only copy. No temporary file goes before
// all steps are taken back: one that is missing says to [Recover] that the set was at its end.
func (b *batch) undo(n int, err error) error {
	var left *step
	var cause error
	undone := b.steps[n:len(b.steps):len(b.steps)]
	for i := n - 1; i >= 0; i-- {
		if failed := b.steps[i].undo(); failed != nil {
			left, cause = b.steps[i], failed
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
	return fault.Wrap(errors.Join(err, cause), fault.FileIO, "The change failed, and %s could not be put back as it was: %s. Look for it under %s beside it.",
		left.path.Show, reason(cause), left.temp).With("path", left.path.Show)
}

// removeFolder removes a folder if it is empty.
func removeFolder(key folderKey) {
	parent, err := openBeneath(key.root.fd, path.Dir(key.rel), oPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
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
		unix.Close(r.fd)
	}
}

const (
	tempPrefix = ".kaged-"
	tempSuffix = ".tmp"
)

// IsTemp reports whether a file name is one of those under which files wait to take their place.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// Replace puts a file with this content at p, whatever is there; see [Apply].
func (p Path) Replace(data []byte) error {
	c := Change{At: p, Data: data}
	if c.Data == nil {
		c.Data = []byte{}
	}
	if f, info, err := p.OpenFile(); err == nil {
		c.Was = VersionOf(info)
		f.Close()
	} else if !errors.Is(err, fault.FileNotFound) {
		return err
	}
	return Apply(c)
}

// Create makes a file that must not be there yet; else it fails with file_exists and changes nothing.
func (p Path) Create(data []byte) error {
	if data == nil {
		data = []byte{}
	}
	return Apply(Change{At: p, Data: data})
}

// Taken is the refusal to create what is already there.
func (p Path) Taken() error {
	return fault.New(fault.FileExists, "There is already something at %s; use file.write to overwrite a file.", p.Show).With("path", p.Show)
}

// held is the refusal to take a file away that the cage grants by itself.
func (p Path) held() error {
	return fault.New(fault.CapabilityDenied, "%s can be changed, and neither removed nor moved, because the agent's cage grants this very file.", p.Show).
		With("path", p.Show).With("required", "rw:fs:"+p.Show)
}

// changed is the refusal to overwrite what somebody else has changed meanwhile.
func (p Path) changed() error {
	return fault.New(fault.FileChangedSinceRead, "%s has changed since it was read; read it again.", p.Show).With("path", p.Show)
}
