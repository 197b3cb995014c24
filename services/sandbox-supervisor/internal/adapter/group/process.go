//go:build unix

package group

import (
	"os/exec"
	"sync"
	"syscall"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// process is a command; it implements core.Process.
type process struct {
	host    *Host
	cmd     *exec.Cmd
	streams *stdio.Streams

	mu   sync.Mutex // guards gone
	gone bool       // the main process was waited for, so its id may be reused

	exited chan struct{}
	end    core.End // set before exited is closed
}

// wait waits for the main process, kills the rest of its group, and reports the end.
func (p *process) wait() {
	_ = p.cmd.Wait() // the process state has the outcome
	p.mu.Lock()
	p.gone = true
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.mu.Unlock()
	if status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		p.end.Signal = status.Signal()
	} else {
		p.end.Code = status.ExitStatus()
	}
	p.host.mu.Lock()
	delete(p.host.running, p)
	p.host.mu.Unlock()
	p.streams.End(p.host.drainWait)
	close(p.exited)
}

// PID implements core.Process, as do the methods below.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Exited implements core.Process.
func (p *process) Exited() <-chan struct{} { return p.exited }

// End implements core.Process.
func (p *process) End() core.End { return p.end }

// Copy implements core.Process.
func (p *process) Copy(sink func(core.Stream, []byte)) { p.streams.Copy(sink, func() {}) }

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
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// Terminate implements core.Process. A stopped process reacts only after it is continued.
func (p *process) Terminate() {
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
}

// Kill implements core.Process.
func (p *process) Kill() { p.Signal(syscall.SIGKILL) }

// Usage implements core.Process. It is always zero here.
func (p *process) Usage() core.Usage { return core.Usage{} }
