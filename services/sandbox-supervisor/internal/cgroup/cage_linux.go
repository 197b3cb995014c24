package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Hit is a limit that was reached.
type Hit int

// The limits that can be reached. A CPU limit only delays.
const (
	HitNone Hit = iota
	HitMemory
	HitPIDs
)

// controller returns the controller that counts the limit.
func (h Hit) controller() string {
	if h == HitMemory {
		return "memory"
	}
	return "pids"
}

// Cage is the cgroups of one cage. Its methods may be called from any goroutine.
type Cage struct {
	cages  *Cages
	id     string
	limits Limits
	uid    int
	into   bool         // whether processes can be started directly in a cgroup
	pid    atomic.Int64 // pid of the init

	init    *Leaf    // cgroup of the init, in cgroup2; nil without cgroup2
	box     string   // folder of the commands' cgroup, in cgroup2; "" without cgroup2
	limited []string // controllers of cgroup2 that limit the cage, sorted
	cpu     *os.File
	oom     *oomEvents // events of version 1; nil without a memory limit there
	pids    *os.File   // pids.events of box in cgroup2; nil without a limit there

	mu       sync.Mutex // guards the fields below
	commands map[*Command]struct{}
	refused  int64 // reported part of the count in pids
	looks    []*time.Timer
	paced    *time.Timer // polls the process limit in version 1; nil if not scheduled
	removed  bool
}

// Make makes the cgroups of a cage. Limits without a controller are not enforced; see [Cages.Support]. The cage's init
// runs as uid.
func (c *Cages) Make(id string, limits Limits, uid int, into bool) (*Cage, error) {
	cage := &Cage{cages: c, id: id, limits: limits, uid: uid, into: into, commands: map[*Command]struct{}{}}
	if err := cage.make(); err != nil {
		_ = cage.Remove() // the next start removes the rest
		return nil, err
	}
	return cage, nil
}

func (c *Cage) make() error {
	if c.cages.v2 != "" && c.into {
		if err := c.makeV2(); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		controller string
		set        bool
		limit      func(dir string) error
	}{
		{"memory", c.limits.Memory > 0, c.limitMemory},
		{"pids", c.limits.PIDs > 0, c.limitPIDs},
		{"cpu", c.limits.CPU > 0, c.limitCPU},
	} {
		h := c.cages.v1[l.controller]
		if h == nil || !l.set {
			continue
		}
		dir := filepath.Join(h.dir, c.id)
		if err := c.cages.mkdir(dir); err != nil {
			return err
		}
		if err := l.limit(dir); err != nil {
			return err
		}
	}
	return nil
}

// period is the period of a CPU quota, in microseconds.
const period = 100_000

// quota returns the quota in a period for a number of cores; the kernel accepts no less than a millisecond.
func quota(cores float64) string { return strconv.FormatInt(max(1000, int64(cores*period)), 10) }

// limitMemory sets the limit in version 1. Swap is disabled, because it would be memory beyond the limit.
func (c *Cage) limitMemory(dir string) (err error) {
	limit := strconv.FormatInt(c.limits.Memory, 10)
	if err := put(filepath.Join(dir, "memory.limit_in_bytes"), limit); err != nil {
		return err
	}
	err = put(filepath.Join(dir, "memory.memsw.limit_in_bytes"), limit)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel that does not count swap
		err = put(filepath.Join(dir, "memory.swappiness"), "0")
	}
	if err != nil {
		return err
	}
	c.oom, err = watchOOM(c.cages.watch, dir, c.lookSoon)
	return err
}

func (c *Cage) limitPIDs(dir string) error {
	return put(filepath.Join(dir, "pids.max"), strconv.FormatInt(c.limits.PIDs, 10))
}

func (c *Cage) limitCPU(dir string) (err error) {
	if err := put(filepath.Join(dir, "cpu.cfs_period_us"), strconv.Itoa(period)); err != nil {
		return err
	}
	if err := put(filepath.Join(dir, "cpu.cfs_quota_us"), quota(c.limits.CPU)); err != nil {
		return err
	}
	c.cpu, err = os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	return err
}

// makeV2 makes the cage's folder with a cgroup for its init, and one with the limits for its commands.
func (c *Cage) makeV2() (err error) {
	dir := filepath.Join(c.cages.v2, c.id)
	if err := c.cages.mkdir(dir); err != nil {
		return err
	}
	// The init, which runs as another user, starts commands in cgroups beside its own.
	if err := os.Chown(filepath.Join(dir, "cgroup.procs"), c.uid, -1); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	if c.init, err = c.cages.leaf(filepath.Join(dir, "init")); err != nil {
		return err
	}
	box := filepath.Join(dir, "box")
	if err := c.cages.mkdir(box); err != nil {
		return err
	}
	c.box = box
	c.limited = c.cages.inV2(
		map[string]bool{"memory": c.limits.Memory > 0, "pids": c.limits.PIDs > 0, "cpu": c.limits.CPU > 0},
	)
	if err := enable(dir, c.limited...); err != nil {
		return err
	}
	for _, controller := range c.limited {
		if err := c.limitV2(box, controller); err != nil {
			return err
		}
	}
	return enable(box, c.limited...)
}

// inV2 returns the wanted controllers that cgroup2 has for cages.
func (c *Cages) inV2(wanted map[string]bool) (has []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, controller := range c.v2has {
		if wanted[controller] {
			has = append(has, controller)
		}
	}
	slices.Sort(has)
	return has
}

// limitV2 sets one limit of the commands' cgroup.
func (c *Cage) limitV2(box, controller string) (err error) {
	switch controller {
	case "cpu":
		return put(filepath.Join(box, "cpu.max"), quota(c.limits.CPU)+" "+strconv.Itoa(period))
	case "memory":
		if err := put(filepath.Join(box, "memory.max"), strconv.FormatInt(c.limits.Memory, 10)); err != nil {
			return err
		}
		err = put(filepath.Join(box, "memory.swap.max"), "0")
		if errors.Is(err, os.ErrNotExist) { // a kernel that does not count swap
			return nil
		}
		return err
	}
	if err := put(filepath.Join(box, "pids.max"), strconv.FormatInt(c.limits.PIDs, 10)); err != nil {
		return err
	}
	if c.pids, err = os.Open(filepath.Join(box, "pids.events")); err != nil {
		return err
	}
	c.refused = counter(c.pids, "max")
	return c.cages.watch.add(int(c.pids.Fd()), c.look)
}

// mkdir makes a cgroup's folder.
func mkdir(path string) error { return os.Mkdir(path, 0o755) }

// leaf makes a cgroup in cgroup2 and opens it.
func (c *Cages) leaf(path string) (*Leaf, error) {
	if err := c.mkdir(path); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		os.Remove(path)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Leaf{path: path, fd: fd}, nil
}

// Init is the folder in cgroup2 to start the cage's init in, if there is one.
func (c *Cage) Init() (fd int, ok bool) {
	if c.init == nil {
		return -1, false
	}
	return c.init.FD(), true
}

// Started sets the process id of the cage's init, because the thread that forks is briefly in its commands' cgroups.
func (c *Cage) Started(pid int) { c.pid.Store(int64(pid)) }

// lookSoon looks for a command killed for memory after a short delay, because the kernel announces the kill before it
// happens.
func (c *Cage) lookSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return
	}
	for _, t := range c.looks {
		t.Stop()
	}
	c.looks = c.looks[:0]
	for _, wait := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		c.looks = append(c.looks, time.AfterFunc(wait, c.look))
	}
}

// interval is the polling interval of a command's process limit in version 1, which has no event.
const interval = 50 * time.Millisecond

// pace polls while there are commands. The caller holds c.mu.
func (c *Cage) pace() {
	if c.paced != nil || c.limits.PIDs <= 0 || c.cages.v1["pids"] == nil {
		return
	}
	c.paced = time.AfterFunc(interval, func() {
		c.look()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paced = nil
		if len(c.commands) > 0 {
			c.pace()
		}
	})
}

// look kills the commands that have reached a limit.
func (c *Cage) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return
	}
	for command := range c.commands {
		command.look()
	}
	if c.pids == nil {
		return
	}
	// In cgroup2 the cage's count only shows that some command was refused: it is taken to be the one with most threads.
	if refused := counter(c.pids, "max"); refused > c.refused {
		c.refused = refused
		var largest *Command
		most := int64(-1)
		for command := range c.commands {
			if n := command.current(); n > most {
				largest, most = command, n
			}
		}
		if largest != nil {
			largest.reach(HitPIDs)
		}
	}
}

// Memory returns the memory in bytes that counts towards the limit, without droppable caches. It fails if no cgroup
// limits memory.
func (c *Cage) Memory() (int64, error) {
	var dir, current, inactive string
	switch h := c.cages.v1["memory"]; {
	case c.limits.Memory <= 0:
		return 0, errNotCounted
	case h != nil:
		dir, current, inactive = filepath.Join(h.dir, c.id), "memory.usage_in_bytes", "total_inactive_file"
	case c.box != "":
		dir, current, inactive = c.box, "memory.current", "inactive_file"
	default:
		return 0, errNotCounted
	}
	data, err := os.ReadFile(filepath.Join(dir, current))
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, err
	}
	cached, err := value(stat, inactive)
	return max(0, used-cached), err
}

// errNotCounted reports a missing counter of a cage.
var errNotCounted = errors.New("it is not counted here")

// CPU returns the CPU time of commands, ended ones included; it fails without cgroup2.
func (c *Cage) CPU() (time.Duration, error) {
	if c.box == "" {
		return 0, errNotCounted
	}
	data, err := os.ReadFile(filepath.Join(c.box, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	usec, err := value(data, "usage_usec")
	return time.Duration(usec) * time.Microsecond, err
}

// Processes returns the processes of the commands; it fails without cgroup2.
func (c *Cage) Processes() ([]int, error) {
	if c.box == "" {
		return nil, errNotCounted
	}
	fd, err := unix.Open(c.box, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return Processes(fd)
}

// Remove kills the remaining processes in the cage's cgroups, its init included, and removes the cgroups. It waits for
// that, up to several seconds.
func (c *Cage) Remove() error {
	c.mu.Lock()
	c.removed = true
	for _, t := range c.looks {
		t.Stop()
	}
	if c.paced != nil {
		c.paced.Stop()
	}
	commands := c.commands
	c.commands = nil
	c.mu.Unlock()
	for command := range commands {
		command.close()
	}
	if c.oom != nil {
		c.oom.close()
	}
	for _, f := range []*os.File{c.cpu, c.pids} {
		if f != nil {
			c.cages.watch.forget(int(f.Fd()))
			f.Close()
		}
	}
	var failed []error
	if c.cages.v2 != "" { // first, because it kills at once
		if c.init != nil {
			c.init.close()
		}
		failed = append(failed, remove(filepath.Join(c.cages.v2, c.id)))
	}
	for _, h := range c.cages.v1 {
		failed = append(failed, removeV1(filepath.Join(h.dir, c.id)))
	}
	return errors.Join(failed...)
}

// oomEvents are the memory events of version 1: an eventfd that counts how often a cgroup ran out of memory.
type oomEvents struct {
	watch   *watcher
	event   int
	control *os.File
}

// watchOOM calls f when memory runs out in dir.
func watchOOM(w *watcher, dir string, f func()) (*oomEvents, error) {
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		control.Close()
		return nil, err
	}
	o := &oomEvents{watch: w, event: event, control: control}
	err = put(filepath.Join(dir, "cgroup.event_control"), fmt.Sprintf("%d %d", event, control.Fd()))
	if err == nil {
		err = w.addEventfd(event, func() {
			_, _ = unix.Read(event, make([]byte, 8)) // the count does not matter
			f()
		})
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *oomEvents) close() {
	o.watch.forget(o.event)
	unix.Close(o.event)
	o.control.Close()
}
