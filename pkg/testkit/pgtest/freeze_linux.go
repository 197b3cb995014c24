package pgtest

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Freeze stops every process of the server, as a hanging disk does, until Thaw.
func (p *Private) Freeze() {
	p.t.Helper()
	// A stopping server may still start a process, which appears later: all present processes must be stopped twice in a
	// row.
	for quiet := 0; quiet < 2; quiet++ {
		for _, pid := range p.processes() {
			if !stopped(pid) {
				_ = unix.Kill(pid, unix.SIGSTOP) // It may have ended.
				quiet = -1
			}
		}
	}
}

// Thaw continues a frozen server.
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
