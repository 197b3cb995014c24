package box

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/crash"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// stubs stand at places that a policy protects and where nothing is, while a cage lives: a mount needs something to cover.
//
// Whoever relies on a protected path, of this process or another, has it locked (shared); who removes a stub must have it alone.
// A stub that goes would take the mount over it along, in every cage. What is to be removed is written down before it is made,
// in one file for each cage, locked as long as its supervisor lives: so the next supervisor finds what a killed one left.
type stubs struct {
	dir string // the folder of the journals, "" for none
	log *slog.Logger

	mu    sync.Mutex      // guards what follows
	stand map[string]stub // those that this process has made and that stand, by path
	left  []string        // journals of boxes that are gone, of which something stands
}

// stub is a folder or a file that is made to be covered.
type stub struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Text string `json:"text,omitempty"`
}

// heldStubs are the protected paths that one box relies on.
type heldStubs struct {
	stubs   *stubs
	ours    []stub   // those to be removed when nobody relies on them
	locks   []int    // on all of them
	journal *os.File // nil for none
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
			h.ours = append(h.ours, stub{Path: g.Path, Dir: g.Dir, Text: g.Stub})
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
	h.ours = slices.DeleteFunc(h.ours, func(x stub) bool { // what somebody else has made meanwhile
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
	file, err := os.OpenFile(filepath.Join(h.stubs.dir, id+suffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	h.journal = file
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	_, err = file.Write(data)
	crash.At(crash.CageNoted)
	return err
}

// suffix ends the name of a journal.
const suffix = ".stubs"

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
		if same(fd, g.Path) {
			h.locks = append(h.locks, fd)
			return true, nil
		}
		unlock(fd)
	}
	return false, invalid(g.Path, "it comes and goes")
}

// unlock lets go of a lock and of its descriptor. Closing alone would leave the lock to a process that is being forked, and
// has all descriptors until it executes something.
func unlock(fd int) {
	_ = unix.Flock(fd, unix.LOCK_UN)
	unix.Close(fd)
}

// same returns whether fd is what is at a path.
func same(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// make makes a stub, as its folder's owner would. It reports false where that is impossible for everybody in the box too.
func (h *heldStubs) make(g cage.Grant) (bool, error) {
	parent, st, err := mounts.Find(unix.AT_FDCWD, filepath.Dir(g.Path))
	if err != nil {
		return false, invalid(g.Path, reasonOf(err))
	}
	defer unix.Close(parent)
	name := filepath.Base(g.Path)
	x := stub{Path: g.Path, Dir: g.Dir, Text: g.Stub}
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
		h.stubs.stand = map[string]stub{}
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

// release lets go of the paths and removes the stubs that nobody relies on.
func (h *heldStubs) release() {
	for _, fd := range h.locks {
		unlock(fd)
	}
	h.locks = nil
	left := 0
	for _, x := range slices.Backward(h.ours) {
		if !h.stubs.remove(x) {
			left++
		}
	}
	if h.journal == nil {
		return
	}
	name := h.journal.Name()
	if left == 0 {
		_ = os.Remove(name)
	}
	_ = unix.Flock(int(h.journal.Fd()), unix.LOCK_UN)
	h.journal.Close()
	h.stubs.sweepAgain(name, left > 0)
}

// sweepAgain tries once more to remove what somebody else relied on, and remembers a journal of which something is left.
func (s *stubs) sweepAgain(name string, left bool) {
	s.mu.Lock()
	names := s.left
	s.left = nil
	s.mu.Unlock()
	if left {
		names = append(names, name)
	}
	for _, name := range names {
		if gone, err := s.sweepOne(name); err == nil && !gone {
			s.mu.Lock()
			s.left = append(s.left, name)
			s.mu.Unlock()
		}
	}
}

// remove removes a stub unless somebody relies on it. It reports whether it needs not be thought of any more: it is gone, or is
// no stub any more because somebody uses it.
func (s *stubs) remove(x stub) (gone bool) {
	defer func() {
		if gone {
			s.mu.Lock()
			delete(s.stand, x.Path)
			s.mu.Unlock()
		}
	}()
	fd, err := unix.Openat2(unix.AT_FDCWD, x.Path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return true
	}
	defer unlock(fd)
	if errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return false
	}
	parent, _, err := mounts.Find(unix.AT_FDCWD, filepath.Dir(x.Path))
	if err != nil {
		return true
	}
	defer unix.Close(parent)
	name := filepath.Base(x.Path)
	if x.Dir {
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) // refused if there is anything in it
		crash.At(crash.CageStubRemoved)
		return true
	}
	var st unix.Stat_t
	text := make([]byte, len(x.Text)+1)
	n, err := unix.Read(fd, text)
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && strings.HasPrefix(x.Text, string(text[:n])) && same(fd, x.Path) {
		_ = unix.Unlinkat(parent, name, 0) // also where who made it was killed before it had written all
		crash.At(crash.CageStubRemoved)
	}
	return true
}

// sweep removes the stubs that killed supervisors have left.
func (s *stubs) sweep() {
	if s.dir == "" {
		return
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+suffix))
	if err != nil {
		return
	}
	for _, name := range names {
		if _, err := s.sweepOne(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("what a killed supervisor left is not removed", "journal", name, "error", err)
		}
	}
}

// sweepOne removes the stubs of one journal, and the journal when they are gone.
func (s *stubs) sweepOne(name string) (gone bool, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, nil // its supervisor lives
	}
	defer func() { _ = unix.Flock(int(file.Fd()), unix.LOCK_UN) }()
	data, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	var list []stub
	if json.Unmarshal(data, &list) != nil {
		list = nil // killed while it was written: nothing had been made
	}
	for _, x := range slices.Backward(list) {
		if !s.remove(x) {
			return false, nil // somebody relies on it
		}
	}
	return true, os.Remove(name)
}
