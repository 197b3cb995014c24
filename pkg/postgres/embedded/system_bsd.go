//go:build unix && !linux

package embedded

import (
	"os/exec"
	"syscall"
)

// bind leaves the server out of a terminal's Ctrl-C, which is for its parent.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// serves cannot be told here; the locks decide.
func serves(pid int, _ string) bool { return alive(pid) }
