package link

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/proc"
)

// process is a command of a peer; it is a core.Process once it has started.
type process struct {
	link  *Link
	id    uint64
	mark  uint64
	spec  core.Spec
	place Place // may be nil

	// started receives one value: nil when the process runs and the fields below are set, or the reason why it does not.
	started chan error
	streams *stdio.Streams
	running bool
	pid     int

	ending  sync.Mutex // held while Ended runs; guards the fields below
	endedAt time.Time  // time of the last call of Ended

	exited chan struct{}
	end    core.End // set before exited is closed
}

// begin records that the process runs. The files are the peer's; see frame.OpStarted.
func (p *process) begin(pid int, fds []int) {
	p.running, p.pid = true, pid
	if p.link.opts.Inner {
		p.pid = 0
		if len(fds) > 0 {
			p.pid = pidOf(fds[0])
			closeAll(fds[:1])
			fds = fds[1:]
		}
	}
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

// pidOf returns the id of a pidfd's process as seen by this process, 0 for an ended one.
func pidOf(fd int) int {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}
	switch err := unix.IoctlPidfdInfo(fd, &info); err {
	case nil:
		return int(info.Pid)
	case unix.ESRCH:
		return 0
	}
	// Linux before 6.13 has only the text, which costs the opening of a file.
	data, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "\nPid:")
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return max(pid, 0)
}

// fail records that the process was not started.
func (p *process) fail(err error) { p.started <- err }

// finish records that the process has ended with all its descendants.
func (p *process) finish(end core.End) {
	p.end = end
	if !p.running {
		p.started <- errGone()
		return
	}
	if p.streams != nil {
		p.streams.End(p.link.opts.DrainWait)
	}
	p.ended()
	switch hit := p.leave(); {
	case end.Lost:
	case hit != contract.ReasonNone:
		p.end.Hit = hit
	case p.link.opts.Inner && end.Signal == syscall.SIGSYS:
		p.end.Hit = contract.ReasonSeccomp // in a cage only the seccomp filter sends SIGSYS
	}
	close(p.exited)
}

// aMoment is the maximum time between the end of a command's output and its own end for which one call of Ended
// suffices.
const aMoment = 10 * time.Millisecond

// ended calls Ended twice: at the end of the output, which the link sees while the peer still reaps the command, so
// that callers need not wait for the peer; and when the command has ended, unless the first call was less than aMoment
// ago.
func (p *process) ended() {
	if p.link.opts.Ended == nil {
		return
	}
	p.ending.Lock()
	defer p.ending.Unlock()
	if time.Since(p.endedAt) > aMoment {
		p.endedAt = time.Now()
		p.link.opts.Ended()
	}
}

// discard releases the resources of a process that was not started.
func (p *process) discard() {
	if p.streams != nil {
		p.streams.Close()
	}
	p.leave()
}

func (p *process) leave() contract.Reason {
	if p.place == nil {
		return contract.ReasonNone
	}
	return p.place.Release()
}

// PID implements core.Process, as do the methods below.
func (p *process) PID() int { return p.pid }

// Exited implements core.Process.
func (p *process) Exited() <-chan struct{} { return p.exited }

// End implements core.Process.
func (p *process) End() core.End { return p.end }

// Copy implements core.Process.
func (p *process) Copy(sink func(core.Stream, []byte)) { p.streams.Copy(sink, p.ended) }

// Close implements core.Process.
func (p *process) Close() { p.streams.Close() }

// Write implements core.Process.
func (p *process) Write(data []byte) error { return p.streams.Write(data) }

// CloseInput implements core.Process.
func (p *process) CloseInput() { p.streams.CloseInput() }

// Share implements core.Process.
func (p *process) Share() string { return p.streams.Offer() }

// Unshare implements core.Process.
func (p *process) Unshare() { p.streams.Withdraw() }

// Resize implements core.Process.
func (p *process) Resize(size core.Size) bool { return p.streams.Resize(size) }

// Hidden implements core.Process.
func (p *process) Hidden() bool { return p.streams.Hidden() }

// Signal implements core.Process.
func (p *process) Signal(sig syscall.Signal) {
	p.tell(frame.Frame{Op: frame.OpSignal, Signal: int(sig)})
}

// Terminate implements core.Process.
func (p *process) Terminate() { p.tell(frame.Frame{Op: frame.OpTerminate}) }

// Kill implements core.Process. If the peer does not report the end in time, the peer is killed, and the supervisor
// kills its remaining processes.
func (p *process) Kill() {
	p.tell(frame.Frame{Op: frame.OpKill})
	time.AfterFunc(p.link.opts.KillTimeout, func() {
		select {
		case <-p.exited:
		default:
			p.link.abandon("does not end a command", p)
		}
	})
}

// tell sends the peer a frame about this process.
func (p *process) tell(f frame.Frame) {
	f.Exec = p.id
	p.link.send(f)
}

// Usage implements core.Process. The CPU time of ended descendants is included if a place counts it, and otherwise if
// their parents have waited for them.
func (p *process) Usage() core.Usage {
	if p.place != nil {
		if usage, known := p.place.Usage(); known {
			return usage
		}
	}
	pids, _ := proc.Marked(func(mark uint64) bool { return mark == p.mark })
	return UsageOf(pids)
}

// UsageOf adds up the use of processes and of the children that they have waited for.
func UsageOf(pids []int) (usage core.Usage) {
	for _, pid := range pids {
		stat, err := proc.Read(pid)
		if err != nil {
			continue
		}
		usage.Memory += stat.Resident
		usage.CPU += stat.CPU + stat.WaitedCPU
	}
	return usage
}
