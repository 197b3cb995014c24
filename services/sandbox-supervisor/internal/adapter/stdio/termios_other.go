//go:build unix && !linux

package stdio

import "golang.org/x/sys/unix"

const getTermios = unix.TIOCGETA
