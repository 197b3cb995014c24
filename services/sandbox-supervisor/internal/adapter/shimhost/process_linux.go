package shimhost

import (
	"errors"
	"os"
	"syscall"
	"time"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/cgroup"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// process is a command of a shim; it is a core.Process from the time it has started.
type process struct {
	link *link
	id   uint64
	mark uint64
	spec core.Spec
	leaf *cgroup.Leaf // nil for none

	// started has one value: nil when the process runs and the fields below are set, or why it does not.
	started chan error
	streams *stdio.Streams
	pid     int

	exited chan struct{}
	end    core.End // set before exited is closed
}

// begin takes note that the process runs. The files are the shim's: the terminal, if it has one.
func (p *process) begin(pid int, fds []int) {
	p.pid = pid
	if p.spec.Terminal != nil && len(fds) == 1 {
		streams, err := stdio.Terminal(fds[0])
		if err != nil {
			p.started <- core.BadStart(err.Error())
			p.Kill()
			return
		}
		p.streams = streams
	} else {
		closeAll(fds)
	}
	p.started <- nil
}

// fail takes note that the process was not started.
func (p *process) fail(err error) { p.started <- err }

// finish takes note that the process is gone with everything it started.
func (p *process) finish(end core.End) {
	p.end = end
	if p.pid == 0 {
		p.started <- errShimGone()
		return
	}
	if p.streams != nil {
		p.streams.End(p.link.host.opts.DrainWait)
	}
	p.removeLeaf()
	close(p.exited)
}

// discard lets go of what a process that was not started holds.
func (p *process) discard() {
	if p.streams != nil {
		p.streams.Close()
	}
	p.removeLeaf()
}

// removeLeaf removes the process's cgroup. It does not wait: what cannot be removed at once is removed beside it.
func (p *process) removeLeaf() {
	if p.leaf == nil || p.leaf.RemoveEmpty() {
		return
	}
	h := p.link.host
	h.removals.Go(func() {
		if err := p.leaf.Remove(); err != nil {
			h.opts.Log.Warn("a cgroup is left", "error", err)
		}
	})
}

// PID implements core.Process, as do the methods below.
func (p *process) PID() int { return p.pid }

// Exited implements core.Process.
func (p *process) Exited() <-chan struct{} { return p.exited }

// End implements core.Process.
func (p *process) End() core.End { return p.end }

// Copy implements core.Process.
func (p *process) Copy(sink func(core.Stream, []byte)) { p.streams.Copy(sink) }

// Write implements core.Process.
func (p *process) Write(data []byte) error { return p.streams.Write(data) }

// CloseInput implements core.Process.
func (p *process) CloseInput() { p.streams.CloseInput() }

// Resize implements core.Process.
func (p *process) Resize(size core.Size) bool { return p.streams.Resize(size) }

// Signal implements core.Process.
func (p *process) Signal(sig syscall.Signal) {
	p.tell(frame.Frame{Op: frame.OpSignal, Signal: int(sig)})
}

// Terminate implements core.Process.
func (p *process) Terminate() { p.tell(frame.Frame{Op: frame.OpTerminate}) }

// Kill implements core.Process. If the shim does not report the end in time, it is killed itself, and what it left is
// killed without it.
func (p *process) Kill() {
	p.tell(frame.Frame{Op: frame.OpKill})
	time.AfterFunc(p.link.host.opts.KillTimeout, func() {
		select {
		case <-p.exited:
		default:
			p.link.abandon("does not end a command", p)
		}
	})
}

// tell sends the shim a frame about this process. A shim that has ended reports the process as lost by itself.
func (p *process) tell(f frame.Frame) {
	f.Exec = p.id
	if err := p.link.conn.Send(f); errors.Is(err, os.ErrDeadlineExceeded) {
		p.link.abandon("takes no orders", p)
	}
}

// Usage implements core.Process. CPU time of descendants that have ended counts where there is a cgroup, and else as far as
// their parents have waited for them.
func (p *process) Usage() core.Usage {
	var pids []int
	var usage core.Usage
	inCgroup := false
	if p.leaf != nil {
		if cpu, err := p.leaf.CPU(); err == nil {
			usage.CPU, inCgroup = cpu, true
		}
		pids, _ = p.leaf.Processes()
	} else {
		pids, _ = proc.Marked(func(mark uint64) bool { return mark == p.mark })
	}
	for _, pid := range pids {
		stat, err := proc.Read(pid)
		if err != nil {
			continue
		}
		usage.Memory += stat.Resident
		if !inCgroup {
			usage.CPU += stat.CPU + stat.WaitedCPU
		}
	}
	return usage
}
