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

// stubs makes and removes stubs: empty files and folders in the place of missing protected paths, as a mount needs a
// target. A stub stands while a cage relies on it.
//
// A cage of any process holds a shared lock on each protected path; removal needs the exclusive lock, since it would
// also remove the mount over the stub in every cage. Before a stub is made it is written to the cage's journal, on
// which the supervisor and the init hold a shared lock. A later sweep thus finds the stubs of a killed supervisor, and
// leaves them alone as long as the init lives.
type stubs struct {
	dir string // the folder of the journals; may be empty
	log *slog.Logger

	mu    sync.Mutex           // guards the fields below
	stand map[string]stub.Stub // existing stubs of this process, by path
}

// heldStubs are the protected paths that one cage relies on.
type heldStubs struct {
	stubs   *stubs
	ours    []stub.Stub // stubs to remove when no other cage relies on them
	locks   []int       // shared, one per protected path
	journal *os.File    // nil if absent
}

// hold locks the protected paths of a view and makes stubs for missing ones. It returns the grants without those for
// which no stub can be made.
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
		} else if g.Missing && !exists(g.Path) { // an existing file is the project's or another supervisor's stub
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
	h.ours = slices.DeleteFunc(h.ours, func(x stub.Stub) bool { // made by another supervisor in the meantime
		_, stands := s.stand[x.Path]
		return !stands
	})
	return h, kept, nil
}

// exists reports whether a path exists; it does not follow a link.
func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// write writes the journal: the stubs that may be made for this cage.
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

// newJournal makes a journal and locks it. A sweep between the two steps would remove it as abandoned, so the path is
// checked after locking.
func newJournal(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_SH); err != nil { // a sweep holds the lock only briefly
			file.Close()
			return nil, err
		}
		if stub.Same(int(file.Fd()), path) {
			return file, nil
		}
		file.Close()
	}
}

// held opens the journal again, read-only and with its own lock, for the init to keep until it ends; -1 without a
// journal.
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

// lock locks a protected path, and makes a stub if the path is missing. there is false if no stub can be made.
func (h *heldStubs) lock(g cage.Grant) (there bool, err error) {
	for range 16 { // another supervisor may remove its stub between two steps
		fd, err := unix.Openat2(unix.AT_FDCWD, g.Path, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.ENOENT):
			made, err := h.make(g)
			if err != nil || !made {
				return false, err
			}
			continue
		case errors.Is(err, unix.EACCES):
			return true, nil // it exists and is not a stub, since this user could read its own stub
		case err != nil:
			return false, invalid(g.Path, reasonOf(err))
		}
		// a remover holds the lock only briefly; on file systems without locks there is no remover
		_ = unix.Flock(fd, unix.LOCK_SH)
		if stub.Same(fd, g.Path) {
			h.locks = append(h.locks, fd)
			return true, nil
		}
		stub.Unlock(fd)
	}
	return false, invalid(g.Path, "another process keeps creating and removing it")
}

// make makes a stub with the owner of its folder. It returns false if the folder is not writable, because then the cage
// cannot write there either.
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
		return false, invalid(g.Path, "no stub can be made to protect it: "+reasonOf(err))
	}
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(parent, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if !slices.Contains(h.ours, x) {
		// missing from the journal: another supervisor's stub, removed since the policy was compiled
		h.ours = append(h.ours, x)
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

// release unlocks the paths and removes unused stubs, including those left by others.
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

// remove removes an unused stub. gone is false if the removal must be tried again. The removal and its note are one
// step for other cages: a cage that creates the stub again between them would mistake its own stub for another
// supervisor's, and leave it.
func (s *stubs) remove(x stub.Stub) (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stub.Remove(x) {
		return false
	}
	delete(s.stand, x.Path)
	return true
}

// abandon unlocks the paths but keeps the stubs for a later sweep, since the init still lives and holds its lock on the
// journal.
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

// sweep removes the stubs of killed supervisors, and those that other cages still relied on at their cage's end.
func (s *stubs) sweep() {
	if s.dir == "" {
		return
	}
	stub.Sweep(s.dir, s.remove, func(journal string, err error) {
		s.log.Warn("cannot remove the stubs of ended cages", "journal", journal, "error", err)
	})
}
