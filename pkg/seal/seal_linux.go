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
	opened int // calls of Open that run
)

// Process seals this process. One that a debugger has started is left open, or the debugger would lose it.
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

// Open runs start, which starts a child in a user namespace, and returns its error: the child's maps are written by
// this process before the child has called exec, and those of a sealed process are root's. The process is open
// meanwhile.
func Open(start func() error) error {
	if os.Geteuid() == 0 {
		return start() // may write root's
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
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0) // it fails for another value only
}
