package shim

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// libcSignals are the two that C libraries keep for themselves. Go leaves them alone, and programs started with
// posix_spawn (by make, for one) come with the first of them ignored.
var libcSignals = [...]uintptr{32, 33}

// sigIgn is the handler that ignores.
const sigIgn = 1

// sigaction is the kernel's: handler, flags, restorer and mask.
type sigaction [4]uintptr

// restoreLibcSignals gives the default back to those of libcSignals that are ignored, so that commands do not inherit
// it.
func restoreLibcSignals() {
	for _, sig := range libcSignals {
		var now, byDefault sigaction
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0,
			0); errno != 0 ||
			now[0] != sigIgn {
			continue
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	}
}
