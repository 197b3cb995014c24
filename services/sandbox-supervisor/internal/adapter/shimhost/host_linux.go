package shimhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// pauses are the pauses before a restart of a shim that ended soon.
var pauses = retry.Pauses{First: 100 * time.Millisecond, Last: 5 * time.Second}

// sweep is the time limit for ending the remaining processes of a shim.
const sweep = 10 * time.Second

// Options configures a host.
type Options struct {
	// Log receives its log entries.
	Log *slog.Logger
	// Node is the permanent id of the supervisor's data directory; Instance is the id of this start.
	Node, Instance string
	// Lock is a file whose lock shows that a supervisor of the node is running; empty for a node with one instance.
	Lock string
	// Lazy starts the shim with the first command.
	Lazy bool
	// Program returns a small static program that acts as the shim if it is started under the shim's name. If Program is
	// nil or fails, Executable is started instead.
	Program func() (*os.File, error)
	// Executable is a program that begins with shim.Main if shim.Invoked; empty for the running one.
	Executable string
	// Cgroups enables cgroups if they are available.
	Cgroups bool
	// StartTimeout is the time in which a shim or a command must start; KillTimeout is the time in which a shim must
	// report the end of a killed command. A slower shim is killed.
	StartTimeout, KillTimeout time.Duration
	// DrainWait is the maximum wait for the output of an ended command.
	DrainWait time.Duration
}

// Host is a core.Spawner that uses a shim.
type Host struct {
	opts     Options
	count    atomic.Uint32  // number of started commands, of all shims
	name     string         // name in cgroups and marks; set before the first shim
	removals sync.WaitGroup // pending removals of cgroups

	wanted func()        // starts the lazy shim
	first  chan struct{} // closed at the first command

	mu      sync.Mutex    // guards the fields below
	current *shimProcess  // the shim, nil if none runs
	err     error         // the reason why no shim runs
	changed chan struct{} // closed and replaced when current or err changes
}

// New returns a host without a shim; [Host.Run] starts one.
func New(opts Options) *Host {
	if opts.Executable == "" {
		opts.Executable = "/proc/self/exe" // the running file, even if its path now names another
	}
	h := &Host{opts: opts, changed: make(chan struct{}), first: make(chan struct{})}
	h.wanted = sync.OnceFunc(func() { close(h.first) })
	if !opts.Lazy {
		h.wanted()
	}
	return h
}

// Run keeps a shim running until ctx ends, and returns when it and all its processes have ended.
func (h *Host) Run(ctx context.Context) error {
	defer h.set(
		nil,
		fault.New(fault.Unavailable, "The sandbox supervisor has stopped.").With("subsystem", "sandbox-supervisor"),
	)
	select {
	case <-h.first:
	case <-ctx.Done():
		return nil
	}
	release := h.claim()
	defer release()
	tree := h.openTree()
	defer func() {
		h.removals.Wait()
		if tree == nil {
			return
		}
		if err := tree.Remove(); err != nil {
			h.opts.Log.Warn("a cgroup is left", "error", err)
		}
	}()
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		s, err := start(h, tree)
		if errors.Is(err, errCgroup) {
			h.opts.Log.Info("no process can be started in a cgroup; tracking commands by an environment marker", "reason", err)
			_ = tree.Remove()
			tree = nil
			continue
		}
		if err != nil {
			h.opts.Log.Error("the shim does not start", "error", err)
			h.set(
				nil,
				fault.Wrap(err, fault.Unavailable, "The process that runs commands does not start; the log has the reason.").
					With("subsystem", "sandbox-supervisor"),
			)
		} else {
			h.set(s, nil)
			s.serve(ctx)
			if ctx.Err() != nil {
				return nil
			}
			h.opts.Log.Warn("the shim went away; starting another")
		}
		if time.Since(began) > pauses.Last {
			failures = 0
			continue
		}
		retry.Wait(ctx, pauses.After(failures))
		failures++
	}
	return nil
}

// Ready fails while no shim runs.
func (h *Host) Ready(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil && h.err == nil {
		return fault.New(fault.Unavailable, "The process that runs commands is starting.").
			With("subsystem", "sandbox-supervisor")
	}
	return h.err
}

// Spawn implements core.Spawner.
func (h *Host) Spawn(ctx context.Context, spec core.Spec) (core.Process, error) {
	for {
		s, err := h.shim(ctx)
		if err != nil {
			return nil, err
		}
		p, err := s.spawn(spec)
		if !errors.Is(err, link.ErrOver) {
			return p, err
		}
	}
}

// Connect implements core.Spawner: uncaged commands listen on this host's loopback.
func (h *Host) Connect(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	return stdio.Connect(ctx, port)
}

// shim returns the shim, and waits for a starting one.
func (h *Host) shim(ctx context.Context) (*shimProcess, error) {
	h.wanted()
	timeout := time.NewTimer(h.opts.StartTimeout)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		current, err, changed := h.current, h.err, h.changed
		h.mu.Unlock()
		if current != nil || err != nil {
			return current, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case <-timeout.C:
			return nil, fault.New(fault.Unavailable, "The process that runs commands takes too long to start.").
				With("subsystem", "sandbox-supervisor")
		}
	}
}

func (h *Host) set(s *shimProcess, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current, h.err = s, err
	close(h.changed)
	h.changed = make(chan struct{})
}

// claim sets the host's name. The one supervisor that holds the node's lock has the node's name, so that its successor
// finds its remaining processes; claim kills those of its predecessor. Another supervisor at the same time, such as
// that of a command without a daemon, has a unique name and touches only its own processes.
func (h *Host) claim() (release func()) {
	h.name = h.opts.Node + "-" + h.opts.Instance
	if h.opts.Lock == "" {
		return func() {}
	}
	lock, err := lockFile(h.opts.Lock)
	if err != nil {
		h.opts.Log.Info("leftovers are not looked for: another supervisor works for this data directory", "reason", err)
		return func() {}
	}
	h.name = h.opts.Node
	h.sweep()
	return func() { lock.Close() }
}

// lockFile creates a file and locks it until it is closed. It fails if another process holds the lock.
func lockFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openTree returns the supervisor's cgroups, nil without usable ones.
func (h *Host) openTree() *cgroup.Tree {
	if !h.opts.Cgroups {
		return nil
	}
	node := "kaged-" + strings.ToLower(h.opts.Node)
	cgroup.SweepTrees(node + "-") // trees of killed additional supervisors, which have unique names
	tree, err := cgroup.Open("kaged-" + strings.ToLower(h.name))
	if err != nil {
		h.opts.Log.Info("no writable cgroup; tracking commands by an environment marker", "reason", err)
		return nil
	}
	return tree
}

// sweep kills all processes with a mark of this host's name, and returns when they have ended. It is called while no
// shim runs.
func (h *Host) sweep() {
	node := proc.Mark(h.name, 0)
	ours := func(mark uint64) bool { return proc.Family(mark, node) }
	for limit := time.Now().Add(sweep); ; {
		pids, err := proc.Marked(ours)
		if err != nil {
			h.opts.Log.Error("looking for leftovers", "error", err)
			return
		}
		pids = proc.Alive(pids)
		if len(pids) == 0 {
			return
		}
		if time.Now().After(limit) {
			h.opts.Log.Error("processes are left that cannot be killed", "pids", pids)
			return
		}
		for _, pid := range pids {
			proc.Signal(pid, unix.SIGKILL, func(pid int) bool { return ours(proc.MarkOf(pid)) })
		}
		time.Sleep(time.Millisecond) // they are other processes' children, so their end has no event
	}
}
