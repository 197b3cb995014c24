package shimhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/link"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
	"kaged.dev/services/sandbox-supervisor/shim"
)

// errCgroup reports that a cgroup was created but no process can be started in it.
var errCgroup = errors.New("a process cannot be started in a cgroup")

// shimProcess is one shim.
type shimProcess struct {
	host *Host
	conn *frame.Conn
	link *link.Link
	cmd  *exec.Cmd
	wait func() error // waits for the end of cmd
	tree *cgroup.Tree // may be nil
	leaf *cgroup.Leaf // the shim's own; may be nil
}

// start starts a shim and returns when it is ready. It fails with errCgroup if only the cgroup prevents the start.
func start(h *Host, tree *cgroup.Tree) (*shimProcess, error) {
	conn, theirs, err := frame.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn.Patience = h.opts.KillTimeout
	s := &shimProcess{host: h, conn: conn, tree: tree}
	s.link = link.New(conn, link.Options{
		Log: h.opts.Log, Peer: "the shim", Abandon: s.kill,
		StartTimeout: h.opts.StartTimeout, KillTimeout: h.opts.KillTimeout, DrainWait: h.opts.DrainWait,
	})
	path, args := h.program()
	s.cmd = &exec.Cmd{
		Path: path, Args: args,
		// This process's environment does not reach the shim. Two threads are enough for its work.
		Env:    []string{"GOMAXPROCS=2", "GOTRACEBACK=single"},
		Stderr: &logWriter{log: h.opts.Log}, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		// The maximum wait for the end of the shim's standard error, which another process may hold open.
		WaitDelay: time.Second,
	}
	// Without the pidfd, the remaining processes of a killed supervisor are left to the next one.
	if self, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		file := os.NewFile(uintptr(self), "supervisor")
		defer file.Close()
		s.cmd.ExtraFiles = append(s.cmd.ExtraFiles, file)
	}
	if tree != nil {
		if s.leaf, err = tree.Leaf(shim.Leaf); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%w: %w", errCgroup, err)
		}
		s.cmd.SysProcAttr.UseCgroupFD, s.cmd.SysProcAttr.CgroupFD = true, s.leaf.FD()
	}
	if s.wait, err = proc.Start(s.cmd); err != nil {
		conn.Close()
		s.removeLeaf()
		if tree != nil {
			return nil, fmt.Errorf("%w: %w", errCgroup, err)
		}
		return nil, err
	}
	theirs.Close()
	if err := s.awaitReady(); err != nil {
		s.reap()
		s.removeLeaf()
		return nil, err
	}
	return s, nil
}

// program returns the shim's executable and its arguments. It prefers the embedded program: a shim from this executable
// would map a hundred megabytes of code, use one of them, and take 70 MB of memory instead of 6.
func (h *Host) program() (path string, args []string) {
	if h.opts.Program != nil {
		file, err := h.opts.Program()
		if err == nil {
			return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())), []string{shim.Name}
		}
		h.opts.Log.Info("the process that runs commands is this program a second time", "reason", err)
	}
	return h.opts.Executable, []string{shim.Name, shim.Misplaced}
}

// kill kills an unusable shim.
func (s *shimProcess) kill() { _ = s.cmd.Process.Kill() } // fails only if it has ended

// awaitReady waits for the shim's first frame.
func (s *shimProcess) awaitReady() error {
	late := time.AfterFunc(s.host.opts.StartTimeout, s.kill)
	defer late.Stop()
	f, fds, err := s.conn.Receive()
	for _, fd := range fds {
		unix.Close(fd)
	}
	if err == nil && f.Op != frame.OpReady {
		err = fmt.Errorf("its first word was %q", f.Op)
	}
	if err != nil {
		return fmt.Errorf(
			"the shim is not ready (every program that runs the sandbox supervisor must begin with shim.Main if "+
				"shim.Invoked): %w",
			err,
		)
	}
	return nil
}

// serve handles the shim's frames until the shim or ctx ends. Then it ends the shim and its leftovers.
func (s *shimProcess) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.End() }) // the shim then kills all its processes and ends
	s.link.Serve()
	s.host.set(nil, nil) // later commands wait for another shim
	if stop() {
		s.kill() // it ended without a request, so its state is unusable
	}
	s.reap()
	s.link.Lose(s.host.sweep)
	s.removeLeaf()
}

// reap waits for the shim's process, and kills it after a time.
func (s *shimProcess) reap() {
	s.conn.Close()
	late := time.AfterFunc(s.host.opts.KillTimeout, s.kill)
	defer late.Stop()
	if err := s.wait(); err != nil {
		s.host.opts.Log.Warn("the shim ended", "reason", err)
	}
}

func (s *shimProcess) removeLeaf() {
	if s.leaf != nil {
		if err := s.leaf.Remove(); err != nil {
			s.host.opts.Log.Warn("a cgroup is left", "error", err)
		}
	}
}

// spawn starts a command.
func (s *shimProcess) spawn(spec core.Spec) (core.Process, error) {
	id := s.host.count.Add(1)
	mark := proc.Mark(s.host.name, id)
	if s.tree == nil {
		return s.link.Spawn(spec, uint64(id), mark, nil)
	}
	leaf, err := s.tree.Leaf(fmt.Sprintf("exec-%d", id))
	if err != nil {
		return nil, core.BadStart(link.Reason(err))
	}
	return s.link.Spawn(spec, uint64(id), mark, &place{host: s.host, leaf: leaf})
}

// place is the cgroup of one command.
type place struct {
	host *Host
	leaf *cgroup.Leaf
}

// Files implements link.Place, as do the methods below.
func (p *place) Files() ([]int, bool) { return []int{p.leaf.FD()}, true }

// Kill implements link.Place.
func (p *place) Kill() error { return p.leaf.Kill() }

// Usage implements link.Place. Memory is that of the processes in the cgroup.
func (p *place) Usage() (core.Usage, bool) {
	cpu, err := p.leaf.CPU()
	pids, _ := p.leaf.Processes()
	usage := link.UsageOf(pids)
	if err == nil {
		usage.CPU = cpu
	}
	return usage, true
}

// Release implements link.Place. A cgroup that cannot be removed at once is removed by a goroutine.
func (p *place) Release() contract.Reason {
	if !p.leaf.RemoveEmpty() {
		p.host.removals.Go(func() {
			if err := p.leaf.Remove(); err != nil {
				p.host.opts.Log.Warn("a cgroup is left", "error", err)
			}
		})
	}
	return contract.ReasonNone
}

// logWriter writes the shim's standard error to the log, line by line.
type logWriter struct {
	log  *slog.Logger
	line []byte
}

func (w *logWriter) Write(data []byte) (int, error) {
	w.line = append(w.line, data...)
	for {
		line, rest, found := bytes.Cut(w.line, []byte("\n"))
		if !found && len(w.line) < 4096 {
			return len(data), nil
		}
		w.log.Error("shim: " + string(line))
		w.line = append([]byte(nil), rest...)
	}
}
