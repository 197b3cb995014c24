package core

import (
	"context"
	"io"
	"syscall"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Spawner starts processes and connects to their ports.
type Spawner interface {
	// Spawn starts a process. It fails with shell_spawn_failed and the system's reason, with invalid_params if the working
	// folder does not exist, and with unavailable if processes cannot be started now; ctx limits only the wait for that.
	Spawn(ctx context.Context, spec Spec) (Process, error)
	// Connect connects to a port of its processes' loopback. It fails with invalid_params without a listener; ctx limits
	// only the wait.
	Connect(ctx context.Context, port int) (io.ReadWriteCloser, error)
}

// Process is a started process with its descendants. Its methods may be called from any goroutine, Copy once.
type Process interface {
	// PID is its process id on the host.
	PID() int
	// Exited is closed when it and its descendants have ended. Its remaining output can still be copied.
	Exited() <-chan struct{}
	// End returns the outcome; call it after Exited.
	End() End
	// Copy passes the process's output to sink, one call at a time, and returns at the end of the output, which can come
	// before that of the process. It reads only as fast as sink returns, which slows the process down.
	Copy(sink func(Stream, []byte))
	// Close closes the process's files; call it after Copy and Exited.
	Close()
	// Write writes to the standard input, and blocks until it is read. It fails when the input is closed.
	Write(data []byte) error
	// CloseInput ends the standard input.
	CloseInput()
	// Share offers the standard input and output to the caller on this machine, and returns the ticket to take them with;
	// "" if they cannot be shared. Then Write fails and Copy passes only standard error, until Unshare, which has no
	// effect once they are taken. Call it at most once, and before Copy.
	Share() (ticket string)
	Unshare()
	// Resize sets the size of the terminal, and reports whether there is one.
	Resize(size Size) bool
	// Hidden reports whether the terminal reads a line without echo, as a password prompt does.
	Hidden() bool
	// Signal sends a signal to its process group.
	Signal(sig syscall.Signal)
	// Terminate asks it and its descendants to end.
	Terminate()
	// Kill kills it and its descendants.
	Kill()
	// Usage returns the current usage of the process and its descendants.
	Usage() Usage
}

// Stream is the origin of output.
type Stream int

// The streams. Terminal output is Stdout.
const (
	Stdout Stream = iota
	Stderr
)

// End is the outcome of a process.
type End struct {
	// Code is its exit code, Signal the signal that ended it, 0 without one.
	Code   int
	Signal syscall.Signal
	// Lost means that its end was not observed: its parent was lost, and it was killed.
	Lost bool
	// Hit is the limit of its cage that ended it, or ReasonNone.
	Hit contract.Reason
}

// Usage is the resource usage of a process and its descendants.
type Usage struct {
	// Memory is the resident memory in bytes.
	Memory int64
	// CPU is the CPU time used so far.
	CPU time.Duration
}

//convert:one .use Usage contract.Use

// BadFolder is the refusal of a working folder, with the system's reason.
func BadFolder(dir, reason string) error {
	return invalid("cwd", "The working folder %s cannot be used: %s.", dir, reason)
}

// BadProgram is the refusal of a program, with the system's reason: details.program is its name, and details.missing is
// true if it does not exist, because shells distinguish the two cases.
func BadProgram(name, reason string) error {
	return fault.New(fault.ShellSpawnFailed, "The program %s cannot be started: %s.", name, reason).
		With("program", name).With("missing", reason == syscall.ENOENT.Error())
}

// BadPort is the refusal of a port, with the system's reason.
func BadPort(port int, reason string) error {
	return invalid("port", "Port %d of the loopback cannot be connected to: %s.", port, reason)
}

// BadStart is the refusal of a start for any other reason of the system.
func BadStart(reason string) error {
	return fault.New(fault.ShellSpawnFailed, "The command cannot be started: %s.", reason)
}
