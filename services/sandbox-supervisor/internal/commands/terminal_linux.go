package commands

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// openTerminal opens a pseudo terminal of the devpts visible to this process, which in a cage is the cage's own. The
// caller closes the descriptors; both have close-on-exec, and the terminal is not a controlling terminal yet.
func openTerminal(size frame.Size) (master, slave int, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	if master, err = unix.Open("/dev/ptmx", flags, 0); err != nil {
		return -1, -1, fmt.Errorf("no terminal: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(master)
			master, slave = -1, -1
		}
	}()
	if err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return master, -1, fmt.Errorf("no terminal: %w", err)
	}
	if slave, err = openSlave(master, flags); err != nil {
		return master, -1, fmt.Errorf("no terminal: %w", err)
	}
	if err = setUp(slave, size); err != nil {
		unix.Close(slave)
		return master, -1, fmt.Errorf("no terminal: %w", err)
	}
	return master, slave, nil
}

// openSlave opens the slave side of a master: from the master itself, which needs no path, or by its path on kernels
// without that call.
func openSlave(master, flags int) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, uintptr(flags))
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

// setUp sets a terminal's size and its UTF-8 mode.
func setUp(fd int, size frame.Size) error {
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols}); err != nil {
		return err
	}
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Iflag |= unix.IUTF8
	return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
}
