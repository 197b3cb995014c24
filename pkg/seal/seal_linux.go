package seal

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

var (
	mu     sync.Mutex // guards the rest
	sealed bool
	opened int // running calls of Open
)

// Process seals this process. It leaves a process open that was started by a debugger, because the debugger would lose
// access.
func Process() {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil && !bytes.Contains(status, []byte("\nTracerPid:\t0\n")) {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	sealed = true
	dumpable(opened > 0)
}

// Open runs start, which starts a child in a user namespace, and returns its error. This process writes the child's id
// maps before the child calls exec, and the map files of a sealed process belong to root, so the process is unsealed
// during the call.
func Open(start func() error) error {
	if os.Geteuid() == 0 {
		return start() // root may write them
	}
	mu.Lock()
	opened++
	if sealed {
		dumpable(true)
	}
	mu.Unlock()
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		if opened--; sealed && opened == 0 {
			dumpable(false)
		}
	}()
	return start()
}

func dumpable(yes bool) {
	value := uintptr(0)
	if yes {
		value = 1
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0) // it fails only for other values
}
