//go:build unix

// Package group starts commands as plain process groups, on systems other than Linux, which have no shim.
//
// It gives fewer guarantees. Only the command's process group is killed with it, so a descendant that leaves the group
// (by setsid, or by the job control of an interactive shell) outlives it; commands survive a killed supervisor; and the
// resource use of a command is unknown. On such a system kaged is for one's own machine and one's own agents.
//
// Goroutines: one per command waits for it, and all have ended when Run returns.
package group

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// Host is a core.Spawner of process groups.
type Host struct {
	drainWait time.Duration
	wg        sync.WaitGroup // counts the processes

	mu      sync.Mutex // guards the fields below
	running map[*process]bool
	stopped bool
}

// New returns a host; drainWait is the maximum wait for the output of an ended command.
func New(drainWait time.Duration) *Host {
	return &Host{drainWait: drainWait, running: map[*process]bool{}}
}

// Run waits until ctx ends, kills the running commands and returns when they have ended.
func (h *Host) Run(ctx context.Context) error {
	<-ctx.Done()
	h.mu.Lock()
	h.stopped = true
	for p := range h.running {
		p.Kill()
	}
	h.mu.Unlock()
	h.wg.Wait()
	return nil
}

// Ready never fails.
func (h *Host) Ready(context.Context) error { return nil }

// Connect implements core.Spawner.
func (h *Host) Connect(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	return stdio.Connect(ctx, port)
}

// Spawn implements core.Spawner.
func (h *Host) Spawn(_ context.Context, spec core.Spec) (core.Process, error) {
	if info, err := os.Stat(spec.Dir); err != nil {
		return nil, core.BadFolder(spec.Dir, reason(err))
	} else if !info.IsDir() {
		return nil, core.BadFolder(spec.Dir, syscall.ENOTDIR.Error())
	}
	path, err := lookup(spec)
	if err != nil {
		return nil, core.BadProgram(spec.Argv[0], reason(err))
	}
	p := &process{host: h, exited: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path:        path,
		Args:        spec.Argv,
		Env:         spec.Env,
		Dir:         spec.Dir,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if p.cmd.Env == nil {
		p.cmd.Env = []string{} // nil would mean this process's environment
	}
	theirs, err := p.open(spec)
	if err != nil {
		return nil, core.BadStart(reason(err))
	}
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		p.streams.Close()
		return nil, fault.New(fault.Unavailable, "The sandbox supervisor has stopped.").
			With("subsystem", "sandbox-supervisor")
	}
	if err := p.cmd.Start(); err != nil {
		p.streams.Close()
		return nil, core.BadProgram(spec.Argv[0], reason(err))
	}
	h.running[p] = true
	h.wg.Go(p.wait)
	return p, nil
}

// open gives the process its terminal or pipes, and returns the child's ends of them, to be closed after the start.
func (p *process) open(spec core.Spec) ([]*os.File, error) {
	if spec.Terminal == nil {
		streams, theirs, err := stdio.Pipes(spec.Merge)
		if err != nil {
			return nil, err
		}
		p.streams = streams
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
		return theirs[:], nil
	}
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer master.Close()
	fd, err := syscall.Dup(int(master.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
		p.streams, err = stdio.Terminal(fd)
	}
	if err != nil {
		slave.Close()
		return nil, err
	}
	p.streams.Resize(*spec.Terminal)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr.Setctty = true
	return []*os.File{slave}, nil
}

// lookup returns the path of the program as the shim would: found in the PATH of the command's environment, relative to
// its working folder.
func lookup(spec core.Spec) (string, error) {
	name := spec.Argv[0]
	if strings.Contains(name, "/") {
		return name, executable(inDir(spec.Dir, name))
	}
	path := ""
	for _, e := range spec.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	found := error(syscall.ENOENT)
	for _, entry := range strings.Split(path, ":") {
		candidate := inDir(spec.Dir, filepath.Join(entry, name))
		err := executable(candidate)
		if err == nil {
			return candidate, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			found = err
		}
	}
	return "", found
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

// reason returns the system's text of an error.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
