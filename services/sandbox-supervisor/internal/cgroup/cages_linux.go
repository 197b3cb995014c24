package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits are the limits of the sum of a cage's commands; zero means no limit.
type Limits struct {
	// Memory is in bytes, swap included.
	Memory int64
	// CPU is in cores.
	CPU float64
	// PIDs counts processes and threads.
	PIDs int64
}

// Cages makes the cgroups of cages: of version 1 or of cgroup2, whichever hierarchy has the controller. A cage's init
// is outside the limits; each command has its own cgroups below the cage's, so that a limit is attributed to the
// command that reached it. Its methods are safe for concurrent use.
type Cages struct {
	name   string
	ours   func(pid int) bool
	v1     map[string]*home // by controller
	own    string           // this process's folder in cgroup2 at its start
	v2     string           // the cages' folder in cgroup2, "" without cgroup2
	v2lock *os.File
	watch  *watcher
	work   sync.WaitGroup // pending kills and removals
	mkdir  func(path string) error

	mu    sync.Mutex       // guards the fields below
	v2has []string         // the controllers that v2 has
	why   map[string]error // the reason why a controller is unavailable
	aside *os.File         // the folder that this process has moved to, locked; nil if it has not moved
}

// home is this process's cgroup in a hierarchy of version 1.
type home struct {
	dir   string   // the cages' folder in it
	lock  *os.File // locked while this process lives
	tasks *os.File // tasks file of this process's own cgroup
}

// OpenCages makes the folders of a supervisor's cages in every usable hierarchy: prefix identifies its data directory,
// instance this start. Folders of killed supervisors with the same prefix are removed, with their processes.
// Unavailable controllers are left out; see [Cages.Support]. ours reports whether a process is a descendant of this
// one, reparented ones included.
func OpenCages(prefix, instance string, ours func(pid int) bool) (*Cages, error) {
	c := &Cages{name: prefix + instance, ours: ours, v1: map[string]*home{}, why: map[string]error{}, mkdir: mkdir}
	h, err := find()
	if err != nil {
		return nil, err
	}
	if c.watch, err = newWatcher(); err != nil {
		return nil, err
	}
	sweepCages(h, prefix)
	for _, controller := range controllers {
		if dir := h.v1[controller]; dir != "" {
			if c.v1[controller], err = openHome(dir, c.name); err != nil {
				delete(c.v1, controller)
				c.why[controller] = fmt.Errorf("cgroup v1 %s: %w", controller, Cause(err))
			}
		}
	}
	if err := c.openV2(h.v2); err != nil {
		for _, controller := range controllers {
			if c.v1[controller] == nil && c.why[controller] == nil {
				c.why[controller] = fmt.Errorf("cgroup v2: %w", Cause(err))
			}
		}
	}
	return c, nil
}

// Cause returns an error without the paths in it.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// openHome makes the cages' folder below dir, in version 1.
func openHome(dir, name string) (*home, error) {
	h := &home{dir: filepath.Join(dir, name)}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if h.lock, err = lock(h.dir); err == nil {
		h.tasks, err = os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	}
	if err != nil {
		os.Remove(h.dir)
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *home) close() {
	for _, f := range []*os.File{h.lock, h.tasks} {
		if f != nil {
			f.Close()
		}
	}
}

// lock locks a folder; it fails if another process holds the lock. The lock is released when the last copy of the file
// is closed, at the latest with the end of the process.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// SweepCages kills and removes the remains of killed supervisors with the same prefix.
func SweepCages(prefix string) {
	if h, err := find(); err == nil {
		sweepCages(h, prefix)
	}
}

func sweepCages(h hierarchies, prefix string) {
	for _, controller := range controllers {
		sweep(h.v1[controller], prefix, removeV1)
	}
	sweep(h.v2, prefix, remove)
}

// sweep removes the unlocked folders below dir whose name begins with prefix. Folders that cannot be
// removed stay for the next start.
func sweep(dir, prefix string, remove func(path string) error) {
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		sweepOne(filepath.Join(dir, e.Name()), remove)
	}
}

// sweepOne removes an unlocked folder.
func sweepOne(path string, remove func(path string) error) {
	f, err := lock(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = remove(path)
}

// SweepLeft kills and removes the remains of a killed supervisor in its folders, of version 1 and of cgroup2.
func SweepLeft(v1, v2 []string) {
	for _, path := range v1 {
		sweepOne(path, removeV1)
	}
	for _, path := range v2 {
		sweepOne(path, remove)
	}
}

// Folders are the folders that remain in version 1 and in cgroup2 if this process is killed.
func (c *Cages) Folders() (v1, v2 []string) {
	for _, controller := range controllers {
		if h := c.v1[controller]; h != nil {
			v1 = append(v1, h.dir)
		}
	}
	if c.v2 != "" {
		v2 = append(v2, c.v2)
	}
	return v1, v2
}

// openV2 makes the cages' folder below own, in cgroup2, with all available controllers.
func (c *Cages) openV2(own string) error {
	if own == "" {
		return errors.New("there is no cgroup2 hierarchy")
	}
	dir := filepath.Join(own, c.name)
	tree, err := openAt(dir)
	if err != nil {
		return err
	}
	if c.v2lock, err = lock(dir); err != nil {
		os.Remove(dir)
		return err
	}
	c.own, c.v2 = own, tree.path
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, controller := range controllers {
		if c.v1[controller] == nil && c.why[controller] == nil {
			c.grant(controller)
		}
	}
	return nil
}

// errShared reports that a cgroup cannot delegate controllers because it contains processes that kaged may not move.
var errShared = errors.New(
	"other processes share kaged's cgroup: start it in one of its own, with systemd by Delegate=yes",
)

// grant enables a controller of cgroup2 for cages, or records the reason of a failure. The caller holds mu.
func (c *Cages) grant(controller string) {
	err := c.handOut(controller)
	if err == nil {
		err = enable(c.v2, controller)
	}
	if err != nil {
		c.why[controller] = err
		return
	}
	delete(c.why, controller)
	c.v2has = append(c.v2has, controller)
}

// handOut enables a controller for the cgroups below own. cgroup2 does not allow that while own contains processes:
// this process and its descendants are moved aside, as a service with delegation should do; others are not moved. The
// caller holds mu.
func (c *Cages) handOut(controller string) error {
	available, err := os.ReadFile(filepath.Join(c.own, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(available)), controller) {
		return fmt.Errorf(
			"cgroup v2 does not hand the %s controller to kaged's cgroup; with systemd, Delegate=yes does",
			controller,
		)
	}
	err = enable(c.own, controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := c.moveAside(); err != nil {
		return err
	}
	return enable(c.own, controller)
}

// moveAside moves this process and its descendants from own into a cgroup beside the cages'. It fails if own also
// contains other processes. The caller holds mu.
func (c *Cages) moveAside() error {
	path := filepath.Join(c.own, c.name+"-self")
	if c.aside == nil {
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		aside, err := lock(path) // locked before it has processes, because sweeps kill the processes in unlocked folders
		if err != nil {
			return err
		}
		c.aside = aside
	}
	for range 10 { // processes started in the meantime are moved in the next round
		pids := processesIn(c.own)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if !c.mine(pid) {
				return errShared
			}
		}
		for _, pid := range pids {
			if err := put(filepath.Join(path, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return errShared
}

// mine reports whether a process is this one or a descendant.
func (c *Cages) mine(pid int) bool {
	self := os.Getpid()
	for range 1000 {
		if pid == self || pid > 1 && c.ours(pid) {
			return true
		}
		if pid <= 1 {
			return false
		}
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return true // it has ended
		}
		rest := string(data[strings.LastIndexByte(string(data), ')')+1:])
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
	}
	return false
}

// enable enables controllers for the cgroups below dir.
func enable(dir string, controllers ...string) error {
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	var missing []string
	for _, controller := range controllers {
		if !slices.Contains(strings.Fields(string(enabled)), controller) {
			missing = append(missing, "+"+controller)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return put(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(missing, " "))
}

// Support returns how a controller, one of memory, pids and cpu, limits cages: by, such as "cgroup v1 memory", or the
// reason why it does not. If into is false an init cannot start a process in a cgroup, which cgroup2 requires.
// Transient obstacles are tried again.
func (c *Cages) Support(controller string, into bool) (by, why string) {
	if c.v1[controller] != nil {
		return "cgroup v1 " + controller, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.why[controller], errShared) {
		c.grant(controller)
	}
	switch {
	case !slices.Contains(c.v2has, controller):
		if err := c.why[controller]; err != nil {
			why = err.Error()
		}
		return "", why
	case !into:
		return "", "cgroup v2 " + controller + ": without a user namespace no process can be started in a cgroup"
	}
	return "cgroup v2 " + controller, ""
}

// Trial returns a folder in cgroup2 for trying to start a process in it, and its removal; false without cgroup2.
func (c *Cages) Trial() (fd int, remove func(), ok bool) {
	if c.v2 == "" {
		return -1, nil, false
	}
	leaf, err := c.leaf(filepath.Join(c.v2, "trial"))
	if err != nil {
		return -1, nil, false
	}
	return leaf.FD(), func() { _ = leaf.Remove() }, true // it is removed at the latest with its parent
}

// WithoutV2 disables cgroup2, because no process can be started in it. No cage may exist yet.
func (c *Cages) WithoutV2(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, controller := range controllers {
		if c.v1[controller] == nil && (c.why[controller] == nil || errors.Is(c.why[controller], errShared)) {
			c.why[controller] = fmt.Errorf("cgroup v2: no process can be started in a cgroup: %w", reason)
		}
	}
	_ = remove(c.v2) // the next start removes the rest
	c.v2lock.Close()
	c.v2, c.v2lock, c.v2has = "", nil, nil
}

// Close removes the folders. No cage may exist any more.
func (c *Cages) Close() error {
	c.work.Wait()
	c.watch.close()
	var failed []error
	for _, h := range c.v1 {
		failed = append(failed, removeV1(h.dir))
		h.close()
	}
	if c.v2 != "" {
		failed = append(failed, remove(c.v2))
		c.v2lock.Close()
	}
	if c.aside != nil { // this process is in it
		c.aside.Close()
	}
	return errors.Join(failed...)
}

// put writes a value into an existing file of a cgroup.
func put(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
