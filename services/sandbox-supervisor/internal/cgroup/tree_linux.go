package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/retry"
)

// settle is the time in which the processes of a killed cgroup must end.
const settle = 5 * time.Second

// settling are the pauses between checks of them. The loops take no context, because killed processes are always
// awaited.
var settling = retry.Pauses{First: time.Millisecond, Last: 100 * time.Millisecond, Within: settle}

// freeing are the pauses between attempts to remove an empty cgroup.
var freeing = retry.Pauses{First: time.Millisecond, Last: time.Second, Within: time.Second}

// Tree is the folder of one supervisor, which holds its lock.
type Tree struct {
	path string
	lock *os.File // nil for an unlocked tree
}

// Open makes the tree with the given name below this process's own cgroup. An existing tree of that name is a
// remainder, and its processes are killed. Open fails without a cgroup2 hierarchy, without the right to make cgroups in
// it, and on kernels that cannot kill a cgroup; the caller then works without cgroups.
func Open(name string) (*Tree, error) {
	parent, err := own()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(parent, name)
	for {
		t, err := openAt(path)
		if err != nil {
			return nil, err
		}
		if t.lock, err = os.Open(path); err == nil {
			err = unix.Flock(int(t.lock.Fd()), unix.LOCK_EX) // a sweep holds it briefly
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.close()
			os.Remove(path)
			return nil, err
		}
		if err == nil && isAt(t.lock, path) {
			return t, nil
		}
		t.close() // it was removed before it was locked
	}
}

// isAt reports whether a file is still the one at path.
func isAt(file *os.File, path string) bool {
	a, err1 := file.Stat()
	b, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// SweepTrees kills and removes the trees of killed supervisors below this process's own cgroup
// whose names begin with prefix.
func SweepTrees(prefix string) {
	if dir, err := own(); err == nil {
		sweep(dir, prefix, remove)
	}
}

// Abandon removes the tree around this process, which is in the given leaf, once the rest of the tree is empty and its
// supervisor has ended. The process leaves the leaf first.
func Abandon(leaf string) error {
	dir, err := own()
	if err != nil {
		return err
	}
	tree := filepath.Dir(dir)
	if filepath.Base(dir) != leaf || !strings.HasPrefix(filepath.Base(tree), "kaged-") {
		return nil
	}
	held, err := lock(tree)
	if err != nil {
		return err // the next supervisor holds it
	}
	defer held.Close()
	if err := put(filepath.Join(filepath.Dir(tree), "cgroup.procs"), "0"); err != nil {
		return err
	}
	return removeEmpty(tree, held)
}

// removeEmpty removes an empty cgroup and those below it, if path is still the held folder.
func removeEmpty(path string, held *os.File) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(path, e.Name()), nil); err != nil {
				return err
			}
		}
	}
	if held != nil && !isAt(held, path) {
		return nil
	}
	return rmdir(path)
}

func openAt(path string) (*Tree, error) {
	t := &Tree{path: path}
	if err := os.Mkdir(path, 0o755); errors.Is(err, fs.ErrExist) {
		if err := t.Remove(); err != nil {
			return nil, fmt.Errorf("leftovers in %s: %w", path, err)
		}
		err = os.Mkdir(path, 0o755)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if err := unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK); err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("cgroup.kill: %w", err)
	}
	return t, nil
}

// Leaf makes an empty cgroup in the tree.
func (t *Tree) Leaf(name string) (*Leaf, error) {
	path := filepath.Join(t.path, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		os.Remove(path)
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Leaf{path: path, fd: fd}, nil
}

// Remove kills the processes in the tree and removes it.
func (t *Tree) Remove() error {
	defer t.close()
	return remove(t.path)
}

func (t *Tree) close() {
	if t.lock != nil {
		t.lock.Close()
	}
}

// Leaf is the cgroup of one command. Its methods may be called from any goroutine, also after its removal.
type Leaf struct {
	path string

	mu sync.RWMutex // guards fd: written by close
	fd int          // the folder, -1 when closed
}

// errRemoved is the error of a removed leaf.
var errRemoved = errors.New("the cgroup was removed")

// FD is the leaf's folder, for starting a process in it. It is valid until the leaf is removed.
func (l *Leaf) FD() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fd
}

// with calls f with the folder, which stays open during the call.
func (l *Leaf) with(f func(fd int) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.fd < 0 {
		return errRemoved
	}
	return f(l.fd)
}

func (l *Leaf) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// CPU returns the CPU time used in the leaf, ended processes included.
func (l *Leaf) CPU() (cpu time.Duration, err error) {
	err = l.with(func(fd int) error {
		data, err := read(fd, "cpu.stat")
		if err != nil {
			return err
		}
		usec, err := value(data, "usage_usec")
		cpu = time.Duration(usec) * time.Microsecond
		return err
	})
	return cpu, err
}

// Processes returns the processes in the leaf.
func (l *Leaf) Processes() (pids []int, err error) {
	err = l.with(func(fd int) error {
		pids, err = Processes(fd)
		return err
	})
	return pids, err
}

// Kill kills all processes in the leaf.
func (l *Leaf) Kill() error { return l.with(Kill) }

// RemoveEmpty removes the leaf if it is empty, and reports whether it is gone.
func (l *Leaf) RemoveEmpty() bool {
	if err := unix.Rmdir(l.path); err != nil && !errors.Is(err, unix.ENOENT) {
		return false
	}
	l.close()
	return true
}

// Remove kills the remaining processes in the leaf and removes it. It waits for that, up to several seconds.
func (l *Leaf) Remove() error {
	l.close()
	return remove(l.path)
}

// remove kills the processes in the cgroup at path and removes it with the cgroups below it, the deepest first. Another
// process may remove it at the same time.
func remove(path string) error {
	err := tryRemove(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func tryRemove(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := Kill(fd); err != nil {
		return err
	}
	if err := waitEmpty(fd, settle); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := remove(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return rmdir(path)
}

// rmdir removes an empty cgroup. The kernel may report it as busy for a short time.
func rmdir(path string) error {
	var err error
	for range freeing.Each(context.Background()) {
		if err = unix.Rmdir(path); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return &fs.PathError{Op: "rmdir", Path: path, Err: err}
}

// Kill kills all processes in a cgroup and in those below it, however fast they fork.
func Kill(fd int) error {
	f, err := unix.Openat(fd, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cgroup.kill: %w", err)
	}
	defer unix.Close(f)
	if _, err := unix.Write(f, []byte("1")); err != nil {
		return fmt.Errorf("cgroup.kill: %w", err)
	}
	return nil
}

// Populated reports whether a cgroup, or one below it, contains a living process.
func Populated(fd int) (bool, error) {
	data, err := read(fd, "cgroup.events")
	if err != nil {
		return false, err
	}
	n, err := value(data, "populated")
	return n != 0, err
}

// Processes returns the processes of a cgroup and of those below it.
func Processes(fd int) ([]int, error) {
	data, err := read(fd, "cgroup.procs")
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded cgroup lists its processes above it
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return append(pids, below(fd)...), nil
}

// below returns the processes of the cgroups below one. A command rarely makes any; unreadable ones are left out.
func below(fd int) (pids []int) {
	self, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(self), "cgroup")
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		child, err := unix.Openat(fd, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		more, _ := Processes(child)
		unix.Close(child)
		pids = append(pids, more...)
	}
	return pids
}

// waitEmpty waits until a cgroup and those below it are empty. It fails after limit.
func waitEmpty(fd int, limit time.Duration) error {
	f, err := unix.Openat(fd, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cgroup.events: %w", err)
	}
	defer unix.Close(f)
	buf := make([]byte, 256)
	for end := time.Now().Add(limit); ; {
		// A read from the start through the polled descriptor arms the poll.
		n, err := unix.Pread(f, buf, 0)
		if err != nil {
			return fmt.Errorf("cgroup.events: %w", err)
		}
		if populated, err := value(buf[:n], "populated"); err != nil || populated == 0 {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return errors.New("its processes do not end")
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(f), Events: unix.POLLPRI}}, int(left.Milliseconds())+1); err != nil &&
			err != unix.EINTR {
			return err
		}
	}
}

// read returns the content of a small file of a cgroup.
func read(fd int, name string) ([]byte, error) {
	f, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(f)
	var data []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(f, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n == 0 {
			return data, nil
		}
		data = append(data, buf[:n]...)
	}
}

// value returns the number after key in a file of "key number" lines.
func value(data []byte, key string) (int64, error) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", key)
}
