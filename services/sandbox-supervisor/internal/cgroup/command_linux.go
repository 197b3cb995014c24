package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the cgroups of one command in a cage. Its methods may be called from any goroutine, also after Release.
type Command struct {
	cage *Cage
	name string
	leaf *Leaf // in cgroup2; nil without cgroup2
	dirs []string
	// tasks are the tasks files of version 1 through which a thread enters and returns.
	tasks []*os.File
	from  []*os.File

	mu     sync.Mutex // guards the fields below
	closed bool
	hit    Hit
	counts []count // counters of the limits
}

// count is the counter of a reached limit.
type count struct {
	hit  Hit
	key  string
	file *os.File
}

// Command makes the cgroups of a command with the given name in its cage.
func (c *Cage) Command(name string) (*Command, error) {
	command := &Command{cage: c, name: name}
	err := command.make()
	if err == nil {
		c.mu.Lock()
		if c.removed {
			err = errRemoved
		} else {
			c.commands[command] = struct{}{}
			c.pace()
		}
		c.mu.Unlock()
	}
	if err != nil {
		command.Release()
		return nil, err
	}
	return command, nil
}

func (c *Command) make() (err error) {
	cage := c.cage
	if h := cage.cages.v1["memory"]; h != nil && cage.limits.Memory > 0 {
		if err := c.enterV1(h, count{hit: HitMemory, key: "oom_kill"}, "memory.oom_control"); err != nil {
			return err
		}
	}
	if h := cage.cages.v1["pids"]; h != nil && cage.limits.PIDs > 0 {
		if err := c.enterV1(h, count{hit: HitPIDs, key: "max"}, "pids.events"); err != nil {
			return err
		}
	}
	if cage.cpu != nil {
		c.from = append(c.from, cage.cages.v1["cpu"].tasks)
	}
	if cage.box == "" {
		return nil
	}
	path := filepath.Join(cage.box, c.name)
	if c.leaf, err = cage.cages.leaf(path); err != nil {
		return err
	}
	c.dirs = append(c.dirs, path)
	if err := os.Chown(filepath.Join(path, "cgroup.procs"), cage.uid, -1); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	if slices.Contains(cage.limited, "memory") {
		if err := put(filepath.Join(path, "memory.oom.group"), "1"); err != nil {
			return err
		}
		if err := c.count(path, count{hit: HitMemory, key: "oom_kill"}, "memory.events"); err != nil {
			return err
		}
	}
	if slices.Contains(cage.limited, "pids") {
		// With a limit equal to the cage's, a command that runs alone has its own count.
		if err := put(filepath.Join(path, "pids.max"), strconv.FormatInt(cage.limits.PIDs, 10)); err != nil {
			return err
		}
		return c.count(path, count{hit: HitPIDs, key: "max"}, "pids.events")
	}
	return nil
}

// enterV1 makes the command's folder in a hierarchy of version 1.
func (c *Command) enterV1(h *home, n count, file string) error {
	dir := filepath.Join(h.dir, c.cage.id, c.name)
	if err := c.cage.cages.mkdir(dir); err != nil {
		return err
	}
	c.dirs = append(c.dirs, dir)
	tasks, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	c.tasks, c.from = append(c.tasks, tasks), append(c.from, h.tasks)
	return c.count(dir, n, file)
}

// count watches a counter.
func (c *Command) count(dir string, n count, file string) (err error) {
	if n.file, err = os.Open(filepath.Join(dir, file)); err != nil {
		return err
	}
	c.counts = append(c.counts, n)
	_ = counter(n.file, n.key)                      // only later events count
	if c.cage.cages.v1[n.hit.controller()] != nil { // version 1 has no such event; see watchOOM and pace
		return nil
	}
	return c.cage.cages.watch.add(int(n.file.Fd()), c.cage.look)
}

// counter reads a counter from a file; an unreadable one is zero.
func counter(f *os.File, key string) int64 {
	buf := make([]byte, 512)
	n, _ := f.ReadAt(buf, 0)
	v, err := value(buf[:n], key)
	if err != nil {
		return 0
	}
	return v
}

// Files are the descriptors for starting a process in the command's cgroups: those for [tasks.Enter], and last, with
// folder, the one in cgroup2.
func (c *Command) Files() (files []int, folder bool) {
	for _, f := range c.tasks {
		files = append(files, int(f.Fd()))
	}
	if c.cage.cpu != nil {
		files = append(files, int(c.cage.cpu.Fd()))
	}
	for _, f := range c.from {
		files = append(files, int(f.Fd()))
	}
	if c.leaf != nil {
		files = append(files, c.leaf.FD())
	}
	return files, c.leaf != nil
}

// look checks for a reached limit, and kills the command for it.
func (c *Command) look() {
	for _, n := range c.open() {
		if counter(n.file, n.key) > 0 {
			c.reach(n.hit)
		}
	}
}

func (c *Command) open() []count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	return c.counts
}

// reach records a reached limit, and kills the command for it. Only the first counts.
func (c *Command) reach(hit Hit) {
	c.mu.Lock()
	first := c.hit == HitNone && !c.closed
	if first {
		c.hit = hit
	}
	c.mu.Unlock()
	if first {
		c.cage.cages.work.Go(func() { _ = c.Kill() }) // its init reports surviving processes
	}
}

// current returns the number of threads in the command, if cgroup2 counts pids.
func (c *Command) current() int64 {
	data, err := os.ReadFile(filepath.Join(c.cage.box, c.name, "pids.current"))
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Kill kills all processes of the command.
func (c *Command) Kill() error {
	if c.leaf != nil {
		if err := c.leaf.Kill(); !errors.Is(err, errRemoved) {
			return err
		}
		return nil
	}
	if len(c.dirs) == 0 {
		return errNotCounted
	}
	// Without cgroup2 they are killed one by one, with forks forbidden if possible, until the cgroup is empty. A thread of
	// the init may be in it briefly; the init is not killed.
	for range settling.Each(context.Background()) {
		var pids []int
		for _, dir := range c.dirs {
			_ = put(filepath.Join(dir, "pids.max"), "0") // only if that is this hierarchy's
			pids = append(pids, processesIn(dir)...)
		}
		if len(pids) == 0 {
			return nil
		}
		killed := false
		for _, pid := range pids {
			if int64(pid) != c.cage.pid.Load() {
				_ = unix.Kill(pid, unix.SIGKILL) // fails if it has ended
				killed = true
			}
		}
		if !killed {
			return nil
		}
	}
	return errors.New("its processes do not end")
}

// Usage returns the command's CPU time, ended processes included, and its processes; it fails without cgroup2.
func (c *Command) Usage() (cpu time.Duration, pids []int, err error) {
	if c.leaf == nil {
		return 0, nil, errNotCounted
	}
	if cpu, err = c.leaf.CPU(); err != nil {
		return 0, nil, err
	}
	pids, err = c.leaf.Processes()
	return cpu, pids, err
}

// Release releases the command's empty cgroups and returns the limit that was reached in them. They are removed in the
// background, because the kernel may hold them briefly.
func (c *Command) Release() Hit {
	for _, n := range c.open() {
		if counter(n.file, n.key) > 0 {
			c.mu.Lock()
			if c.hit == HitNone {
				c.hit = n.hit
			}
			c.mu.Unlock()
		}
	}
	c.cage.mu.Lock()
	delete(c.cage.commands, c)
	c.cage.mu.Unlock()
	c.close()
	c.cage.cages.work.Go(func() {
		for _, dir := range c.dirs {
			_ = rmdir(dir) // if it remains, it is removed with its cage
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hit
}

// close closes the command's files.
func (c *Command) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, n := range c.counts {
		c.cage.cages.watch.forget(int(n.file.Fd()))
		n.file.Close()
	}
	for _, f := range c.tasks {
		f.Close()
	}
	if c.leaf != nil {
		c.leaf.close()
	}
}
