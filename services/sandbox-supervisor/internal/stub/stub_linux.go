package stub

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/crash"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// Suffix is the suffix of a journal's name.
const Suffix = ".stubs"

// Stub is a folder or a file that serves as a mount point.
type Stub struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Text string `json:"text,omitempty"`
}

// Unlock releases a lock and its descriptor. Closing the descriptor would not release the lock while a process is being
// forked, which has all descriptors until it executes a program.
func Unlock(fd int) {
	_ = unix.Flock(fd, unix.LOCK_UN)
	unix.Close(fd)
}

// Same reports whether fd is the file at a path.
func Same(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// Remove removes a stub unless a process has it locked. It reports whether the stub needs no further attempt: it is
// removed, or it has become another file or a folder with content.
func Remove(x Stub) (gone bool) {
	fd, err := unix.Openat2(unix.AT_FDCWD, x.Path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return true
	}
	defer Unlock(fd)
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
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) // refused unless it is empty
		crash.At(crash.CageStubRemoved)
		return true
	}
	var st unix.Stat_t
	text := make([]byte, len(x.Text)+1)
	n, err := unix.Read(fd, text)
	if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		strings.HasPrefix(x.Text, string(text[:n])) &&
		Same(fd, x.Path) {
		_ = unix.Unlinkat(parent, name, 0) // also if its maker was killed while writing
		crash.At(crash.CageStubRemoved)
	}
	return true
}

// Sweep removes the journals of a folder that belong to ended supervisors and have only unlocked stubs, together with
// these stubs. It calls remove for each stub, as [Remove], and failed for each failure.
func Sweep(dir string, remove func(Stub) (gone bool), failed func(journal string, err error)) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+Suffix))
	if err != nil {
		return
	}
	for _, name := range names {
		if err := sweep(name, remove); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed(name, err)
		}
	}
}

// sweep removes the stubs of one journal, and the journal when they are gone.
func sweep(name string, remove func(Stub) (gone bool)) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its supervisor is alive
	}
	defer func() { _ = unix.Flock(int(file.Fd()), unix.LOCK_UN) }()
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	var list []Stub
	if json.Unmarshal(data, &list) != nil {
		list = nil // the supervisor was killed while writing it, so no stub was made
	}
	for _, x := range slices.Backward(list) {
		if !remove(x) {
			return nil // a stub is in use
		}
	}
	if !Same(int(file.Fd()), name) {
		return nil
	}
	return os.Remove(name)
}
