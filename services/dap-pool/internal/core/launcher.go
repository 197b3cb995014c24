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
	// Cage is the cage's policy and CageID the cage it runs in; nil and empty without one.
	Cage   *dsl.Cage
	CageID string
	Root   string
	// Stderr is called with the program's standard error, by one goroutine.
	Stderr func([]byte)
}

// Process is a program that runs. Reading reads its standard output, writing writes its standard input.
type Process interface {
	// Close ends it and everything it started, and returns when they are gone.
	io.ReadWriteCloser
	// PID is its process id as the host sees it.
	PID() int64
	// Ended is closed when it is gone. Exit then returns its exit code, or 128 plus the signal that ended it; -1 for
	// an unknown one.
	Ended() <-chan struct{}
	Exit() int
	// Killed returns the limit that ended it, once Ended is closed.
	Killed() contract.Reason
}

// Launcher starts programs.
type Launcher interface {
	// Launch returns when the program runs. It fails with shell_spawn_failed, details.missing says whether the
	// program is not there; ctx bounds the start only.
	Launch(ctx context.Context, spec Spec) (Process, error)
	// Connect connects to a port of the loopback that a program of spec would have.
	Connect(ctx context.Context, spec Spec, port int) (io.ReadWriteCloser, error)
}
