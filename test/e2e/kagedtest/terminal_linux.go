package kagedtest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Modes returns the present modes of the terminal.
func (x *Terminal) Modes(t testing.TB) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(x.keys.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *modes
}
