package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits bounds what a cage's commands use together; zero is no limit.
type Limits struct {
	// Memory is in bytes, swap included.
	Memory int64
	// CPU is in cores.
	CPU float64
	// PIDs counts processes and threads.
	PIDs int64
}

// Cages makes the cgroups of cages: of version 1 or of cgroup2, whichever has the controller. A cage's init is outside of
// what is limited; each command has cgroups of its own below the cage's, by which a limit that is hit is known to be its. Its
// methods may be called by many at once.
type Cages struct {
	name  string
	v1    map[string]*home  // by controller
	v2    string            // the folder in cgroup2, "" where there can be none
	v2has []string          // the controllers that v2 has
	why   map[string]string // why a controller cannot be had
	watch *watcher
	work  sync.WaitGroup // kills and removals
	mkdir func(path string) error
}

// home is this process's own place in a hierarchy of version 1.
type home struct {
	dir   string   // the cages' folder in it
	tasks *os.File // of this process's own cgroup
}

// OpenCages makes the folders called name in every hierarchy that has something for cages. What is there already is a
// leftover: it is killed and removed. What cannot be had is not there; see [Cages.Support].
func OpenCages(name string) (*Cages, error) {
	c := &Cages{name: name, v1: map[string]*home{}, why: map[string]string{}, mkdir: mkdir}
	h, err := find()
	if err != nil {
		return nil, err
	}
	if c.watch, err = newWatcher(); err != nil {
		return nil, err
	}
	for _, controller := range controllers {
		if dir := h.v1[controller]; dir != "" {
			if c.v1[controller], err = openHome(dir, name); err != nil {
				delete(c.v1, controller)
				c.why[controller] = fmt.Sprintf("cgroup v1 %s: %v", controller, Cause(err))
			}
		}
	}
	if err := c.openV2(h.v2); err != nil {
		for _, controller := range controllers {
			if c.v1[controller] == nil && c.why[controller] == "" {
				c.why[controller] = fmt.Sprintf("cgroup v2: %v", Cause(err))
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
	if err := removeV1(h.dir); err != nil {
		return nil, fmt.Errorf("leftovers: %w", err)
	}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return nil, err
	}
	tasks, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	if err != nil {
		os.Remove(h.dir)
		return nil, err
	}
	h.tasks = tasks
	return h, nil
}

// openV2 makes the cages' folder below own, in cgroup2, with as many controllers as can be had.
func (c *Cages) openV2(own string) error {
	if own == "" {
		return errors.New("there is no cgroup2 hierarchy")
	}
	dir := filepath.Join(own, c.name)
	tree, err := openAt(dir)
	if err != nil {
		return err
	}
	c.v2 = tree.path
	for _, controller := range controllers {
		if c.v1[controller] != nil || c.why[controller] != "" {
			continue
		}
		if err := grant(own, controller, c.name); err != nil {
			c.why[controller] = err.Error()
			continue
		}
		if err := enable(dir, controller); err != nil {
			c.why[controller] = err.Error()
			continue
		}
		c.v2has = append(c.v2has, controller)
	}
	return nil
}

// errShared says that a cgroup cannot hand out controllers while processes are in it that are not kaged's to move.
var errShared = errors.New("other processes share kaged's cgroup: start it in one of its own, with systemd by Delegate=yes")

// grant lets the cgroups below own use a controller. cgroup2 does not allow that while processes are in own: this process and
// those it has started are moved aside, as a service with delegation is to do; others are left alone.
func grant(own, controller, name string) error {
	available, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(available)), controller) {
		return fmt.Errorf("cgroup v2 does not hand the %s controller to kaged's cgroup; with systemd, Delegate=yes does", controller)
	}
	err = enable(own, controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := moveAside(own, filepath.Join(own, name+"-self")); err != nil {
		return err
	}
	return enable(own, controller)
}

// enable lets the cgroups below dir use controllers.
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

// Support says how a controller, one of memory, pids and cpu, limits cages: by, such as "cgroup v1 memory", or why it does not.
func (c *Cages) Support(controller string) (by, why string) {
	switch {
	case c.v1[controller] != nil:
		return "cgroup v1 " + controller, ""
	case slices.Contains(c.v2has, controller):
		return "cgroup v2 " + controller, ""
	}
	return "", c.why[controller]
}

// Close removes the folders. There must be no cage left.
func (c *Cages) Close() error {
	c.work.Wait()
	c.watch.close()
	var failed []error
	for _, h := range c.v1 {
		failed = append(failed, removeV1(h.dir))
		h.tasks.Close()
	}
	if c.v2 != "" {
		failed = append(failed, remove(c.v2))
	}
	return errors.Join(failed...)
}

// put writes a value into a file of a cgroup, which must be there.
func put(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
