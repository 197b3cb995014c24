package pgtest

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Freeze stops every process of the server, as a disk that hangs does, until Thaw.
func (p *Private) Freeze() {
	p.t.Helper()
	// A server that is told to stop may still be starting a process, which shows up later: twice in a row, all that are
	// there must have stopped.
	for quiet := 0; quiet < 2; quiet++ {
		for _, pid := range p.processes() {
			if !stopped(pid) {
				_ = unix.Kill(pid, unix.SIGSTOP) // It may have ended.
				quiet = -1
			}
		}
	}
}

// Thaw lets a frozen server go on.
func (p *Private) Thaw() {
	p.t.Helper()
	for _, pid := range p.processes() {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
}

func (p *Private) processes() []int {
	p.t.Helper()
	pids := p.Processes()
	if len(pids) == 0 {
		p.t.Fatal("the server has no processes")
	}
	return pids
}

// stopped reports whether a process is stopped, or has ended.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err != nil || !found || bytes.ContainsAny(rest[:1], "TtZX")
}
