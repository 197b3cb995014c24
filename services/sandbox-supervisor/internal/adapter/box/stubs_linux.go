package box

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/crash"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
	"kaged.dev/services/sandbox-supervisor/internal/stub"
)

// stubs stand at places that a policy protects and where nothing is, while a cage lives: a mount needs something to cover.
//
// Whoever relies on a protected path, of this process or another, has it locked (shared); who removes a stub must have it alone.
// A stub that goes would take the mount over it along, in every cage. What is to be removed is written down before it is made,
// in one file for each cage, locked (shared) as long as its supervisor or its init lives: so whoever comes next finds what a killed one left,
// and not before nobody is in the cage.
type stubs struct {
	dir string // the folder of the journals, "" for none
	log *slog.Logger

	mu    sync.Mutex           // guards what follows
	stand map[string]stub.Stub // those that this process has made and that stand, by path
}

// heldStubs are the protected paths that one box relies on.
type heldStubs struct {
	stubs   *stubs
	ours    []stub.Stub // those to be removed when nobody relies on them
	locks   []int       // on all of them
	journal *os.File    // nil for none
}

// hold locks the protected paths of a view, and makes a stub where one is missing. It returns the grants as they are now,
// without those that cannot be there.
func (s *stubs) hold(id string, grants []cage.Grant) (_ *heldStubs, _ []cage.Grant, err error) {
	h := &heldStubs{stubs: s}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	s.mu.Lock()
	for _, g := range grants {
		if x, stands := s.stand[g.Path]; stands {
			h.ours = append(h.ours, x)
		} else if g.Missing && !exists(g.Path) { // what is there is somebody's, if only another supervisor's
			h.ours = append(h.ours, stub.Stub{Path: g.Path, Dir: g.Dir, Text: g.Stub})
		}
	}
	s.mu.Unlock()
	if err := h.write(id); err != nil {
		return nil, nil, unavailable("journal", reasonOf(err), "make the data directory writable")
	}
	kept := make([]cage.Grant, 0, len(grants))
	for _, g := range grants {
		if g.Protected {
			there, err := h.lock(g)
			if err != nil {
				return nil, nil, err
			}
			if !there {
				continue
			}
		}
		kept = append(kept, g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.ours = slices.DeleteFunc(h.ours, func(x stub.Stub) bool { // what somebody else has made meanwhile
		_, stands := s.stand[x.Path]
		return !stands
	})
	return h, kept, nil
}

// exists returns whether anything is at a path.
func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// write writes the journal.
func (h *heldStubs) write(id string) error {
	if len(h.ours) == 0 || h.stubs.dir == "" {
		return nil
	}
	data, err := json.Marshal(h.ours)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.stubs.dir, 0o700); err != nil {
		return err
	}
	file, err := newJournal(filepath.Join(h.stubs.dir, id+stub.Suffix))
	if err != nil {
		return err
	}
	h.journal = file
	_, err = file.Write(data)
	crash.At(crash.CageNoted)
	return err
}

// newJournal makes a journal and locks it. Until it is locked, whoever sweeps takes it for one that a killed supervisor had not written.
func newJournal(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_SH); err != nil { // who sweeps holds it for a moment only
			file.Close()
			return nil, err
		}
		if stub.Same(int(file.Fd()), path) {
			return file, nil
		}
		file.Close()
	}
}

// held returns the journal opened and locked once more, to be read only, for the init to have until it ends; -1 where there is none.
func (h *heldStubs) held() (fd int, err error) {
	if h.journal == nil {
		return -1, nil
	}
	if fd, err = unix.Open(h.journal.Name(), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_SH); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lock locks a protected path, and makes a stub if nothing is there. It reports whether anything is there then.
func (h *heldStubs) lock(g cage.Grant) (there bool, err error) {
	for range 16 { // a stub of another may go between two steps, again and again
		fd, err := unix.Openat2(unix.AT_FDCWD, g.Path, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.ENOENT):
			made, err := h.make(g)
			if err != nil || !made {
				return false, err
			}
			continue
		case errors.Is(err, unix.EACCES):
			return true, nil // it is there, and cannot be a stub that this user could remove
		case err != nil:
			return false, invalid(g.Path, reasonOf(err))
		}
		_ = unix.Flock(fd, unix.LOCK_SH) // whoever removes holds it for a moment only; a file system without locks has none
		if stub.Same(fd, g.Path) {
			h.locks = append(h.locks, fd)
			return true, nil
		}
		stub.Unlock(fd)
	}
	return false, invalid(g.Path, "it comes and goes")
}

// make makes a stub, as its folder's owner would. It reports false where that is impossible for everybody in the box too.
func (h *heldStubs) make(g cage.Grant) (bool, error) {
	parent, st, err := mounts.Find(unix.AT_FDCWD, filepath.Dir(g.Path))
	if err != nil {
		return false, invalid(g.Path, reasonOf(err))
	}
	defer unix.Close(parent)
	name := filepath.Base(g.Path)
	x := stub.Stub{Path: g.Path, Dir: g.Dir, Text: g.Stub}
	if g.Dir {
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = makeFile(parent, name, g.Stub)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return true, nil
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return false, nil
	case err != nil:
		return false, invalid(g.Path, "nothing can be put there to protect it: "+reasonOf(err))
	}
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(parent, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if !slices.Contains(h.ours, x) {
		h.ours = append(h.ours, x) // it was there when the policy was compiled: another's stub, which is gone
	}
	h.stubs.mu.Lock()
	defer h.stubs.mu.Unlock()
	if h.stubs.stand == nil {
		h.stubs.stand = map[string]stub.Stub{}
	}
	h.stubs.stand[x.Path] = x
	crash.At(crash.CageStubMade)
	return true, nil
}

func makeFile(parent int, name, text string) error {
	fd, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	crash.At(crash.CageStubHalf)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// release lets go of the paths and removes the stubs that nobody relies on, those that others have left included.
func (h *heldStubs) release() {
	for _, fd := range h.locks {
		stub.Unlock(fd)
	}
	h.locks = nil
	left := 0
	for _, x := range slices.Backward(h.ours) {
		if !h.stubs.remove(x) {
			left++
		}
	}
	if h.journal != nil {
		if left == 0 {
			_ = os.Remove(h.journal.Name())
		}
		_ = unix.Flock(int(h.journal.Fd()), unix.LOCK_UN)
		h.journal.Close()
	}
	h.stubs.sweep()
}

// remove removes a stub unless somebody relies on it. It reports whether it needs not be thought of any more.
func (s *stubs) remove(x stub.Stub) (gone bool) {
	if !stub.Remove(x) {
		return false
	}
	s.mu.Lock()
	delete(s.stand, x.Path)
	s.mu.Unlock()
	return true
}

// abandon lets go of the paths and leaves the stubs to who looks for what was left, which is also done now: they stand as long as the init has
// the journal locked.
func (h *heldStubs) abandon() {
	for _, fd := range h.locks {
		stub.Unlock(fd)
	}
	h.locks = nil
	if h.journal != nil {
		_ = unix.Flock(int(h.journal.Fd()), unix.LOCK_UN)
		h.journal.Close()
	}
	h.stubs.sweep()
}

// sweep removes the stubs that killed supervisors have left, and those of boxes that are gone that somebody else relied on.
func (s *stubs) sweep() {
	if s.dir == "" {
		return
	}
	stub.Sweep(s.dir, s.remove, func(journal string, err error) {
		s.log.Warn("stubs of cages that are gone are not removed", "journal", journal, "error", err)
	})
}
