//go:build !unix

package embedded

import (
	"os"
	"os/exec"
)

func ownerOf(os.FileInfo) (int, bool) { return 0, false }

const locksAreInherited = false

func tryLock(*os.File) (bool, error) { return true, nil }

// Without signals a server can only be killed; it recovers at its next start.
const (
	signalFast      = killSignal(0)
	signalImmediate = killSignal(0)
)

type killSignal int

func (killSignal) Signal()        {}
func (killSignal) String() string { return "kill" }

func alive(int) bool { return false }

func interrupt(int) {}

func serves(int, string) bool { return false }

func bind(*exec.Cmd) {}
