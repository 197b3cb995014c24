//go:build unix

package pgtest

import "golang.org/x/sys/unix"

// Freeze stops every process of the server, as a disk that hangs does, until Thaw.
func (p *Private) Freeze() { p.signal(unix.SIGSTOP) }

// Thaw lets a frozen server go on.
func (p *Private) Thaw() { p.signal(unix.SIGCONT) }

func (p *Private) signal(s unix.Signal) {
	p.t.Helper()
	pids := p.Processes()
	if len(pids) == 0 {
		p.t.Fatal("the server has no processes")
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, s) // A child may have ended.
	}
}
