package core

import (
	"context"
	"io"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Spec is a program to start.
type Spec struct {
	Owner contract.Owner
	Argv  []string
	Dir   string
	Env   map[string]string
	// Cage is the cage's policy and CageID the id of the program's cage; they are nil and empty for no cage.
	Cage   *dsl.Cage
	CageID string
	Root   string
	// Stderr receives the program's standard error. One goroutine calls it.
	Stderr func([]byte)
}

// Process is a running program. Reads are from its standard output, writes to its standard input.
type Process interface {
	// Close ends the program and everything it started, and returns when they have ended.
	io.ReadWriteCloser
	// PID is its process id in the host's numbering.
	PID() int64
	// Ended is closed when the program has ended. Exit then returns its exit code, or 128 plus the signal that ended it;
	// -1 if unknown.
	Ended() <-chan struct{}
	Exit() int
	// Killed returns the limit that ended the program, after Ended is closed.
	Killed() contract.Reason
}

// Launcher starts programs.
type Launcher interface {
	// Launch returns when the program runs. It fails with shell_spawn_failed; details.missing is true if the program does
	// not exist. ctx limits only the start.
	Launch(ctx context.Context, spec Spec) (Process, error)
	// Connect connects to a port of the loopback interface that a program of spec would have.
	Connect(ctx context.Context, spec Spec, port int) (io.ReadWriteCloser, error)
}
