//go:build unix && !linux

package embedded

import (
	"os/exec"
	"syscall"
)

// bind detaches the server from a terminal's Ctrl-C, which its parent handles.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// serves cannot identify a server on this system; the locks decide.
func serves(pid int, _ string) bool { return alive(pid) }
