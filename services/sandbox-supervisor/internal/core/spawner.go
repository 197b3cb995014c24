package core

import (
	"context"
	"io"
	"syscall"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Spawner starts processes, and connects to their ports.
type Spawner interface {
	// Spawn starts a process. It fails with shell_spawn_failed and the system's reason, with invalid_params if the
	// working folder is not there, and with unavailable if processes cannot be started now; ctx bounds the wait for
	// that only.
	Spawn(ctx context.Context, spec Spec) (Process, error)
	// Connect connects to a port of the loopback that its processes have. It fails with invalid_params if
	// there is no listener; ctx bounds the wait for that only.
	Connect(ctx context.Context, port int) (io.ReadWriteCloser, error)
}

// Process is a started process with everything it starts. Its methods may be called by many at once, Copy once.
type Process interface {
	// PID is its process id as the host sees it.
	PID() int
	// Exited is closed when it is gone with everything it started. All it wrote can still be copied.
	Exited() <-chan struct{}
	// End says how it ended; only after Exited.
	End() End
	// Copy passes the process's output to sink, one call at a time, and returns at the end of the output, when
	// the process is gone. It reads no faster than sink returns, which slows the process down. It closes the
	// process's files at the end.
	Copy(sink func(Stream, []byte))
	// Write writes to the standard input and blocks while it is not read. It fails when the input is closed.
	Write(data []byte) error
	// CloseInput ends the standard input.
	CloseInput()
	// Resize sets the size of the terminal; it reports whether there is one.
	Resize(size Size) bool
	// Hidden reports whether the terminal reads a line without showing it, as a prompt for a password does.
	Hidden() bool
	// Signal sends a signal to its process group.
	Signal(sig syscall.Signal)
	// Terminate asks it and everything it started to end.
	Terminate()
	// Kill makes an end of it and everything it started.
	Kill()
	// Usage returns the current usage of the process and its descendants.
	Usage() Usage
}

// Stream is where output came from.
type Stream int

// The streams. Terminal output is Stdout.
const (
	Stdout Stream = iota
	Stderr
)

// End is how a process ended.
type End struct {
	// Code is its exit code, Signal the signal that ended it, 0 without one.
	Code   int
	Signal syscall.Signal
	// Lost reports that its end was not observed: its watcher was lost, and it was killed.
	Lost bool
	// Hit is the limit of its box that ended it, or ReasonNone.
	Hit contract.Reason
}

// Usage is the resource usage of a process and its descendants.
type Usage struct {
	// Memory is resident bytes.
	Memory int64
	// CPU is the time used so far.
	CPU time.Duration
}

//convert:one .use Usage contract.Use

// BadFolder is the refusal of a working folder, with the system's reason.
func BadFolder(dir, reason string) error {
	return invalid("cwd", "The working folder %s cannot be used: %s.", dir, reason)
}

// BadProgram is the refusal of a program, with the system's reason: details.program names it, and details.missing
// says that it is not there, as shells tell the two apart.
func BadProgram(name, reason string) error {
	return fault.New(fault.ShellSpawnFailed, "The program %s cannot be started: %s.", name, reason).
		With("program", name).With("missing", reason == syscall.ENOENT.Error())
}

// BadPort is the refusal of a port, with the system's reason.
func BadPort(port int, reason string) error {
	return invalid("port", "Port %d of the loopback cannot be connected to: %s.", port, reason)
}

// BadStart is the refusal of a start for any other reason of the system's.
func BadStart(reason string) error {
	return fault.New(fault.ShellSpawnFailed, "The command cannot be started: %s.", reason)
}
