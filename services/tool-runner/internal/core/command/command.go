// Package command says what tools need of whoever runs commands. The sandbox meets it; tests meet it with a shell of their
// own.
package command

import (
	"context"
	"time"

	"kaged.dev/services/tool-runner/internal/core/cage"
)

// Owner is who a command belongs to and dies with.
type Owner struct{ SessionID, RunID, CallID, ProjectID string }

// Spec describes a command.
type Spec struct {
	Owner Owner
	// Argv is the program and its arguments, Dir the working folder (absolute), Env the whole environment.
	Argv []string
	Dir  string
	Env  map[string]string
	// Terminal gives the command a terminal instead of pipes.
	Terminal bool
	// Timeout ends the command, 0 for never.
	Timeout time.Duration
	// Cage is the caller's, nil for none; Root is the project's root, which its paths are relative to.
	Cage *cage.Policy
	Root string
}

// Reason is why a command was ended from outside.
type Reason int

// The reasons; None is that it ended by itself or by a signal of its own.
const (
	None Reason = iota
	TimedOut
	Cancelled
	OwnerEnded
	Lost
)

// Exit is how a command ended.
type Exit struct {
	// Code is its exit code, or 128 plus the signal that ended it.
	Code   int
	Reason Reason
	// Duration is how long it ran.
	Duration time.Duration
}

// Runner runs commands. It is safe for concurrent use.
type Runner interface {
	// Run runs a command to its end, with nothing to read on its standard input. output is called from one goroutine at a
	// time with what the command writes, cut anywhere, and must not keep the slice. When ctx ends the command and everything
	// it started are killed and Run returns ctx's error. It fails with shell_spawn_failed if the command cannot be started,
	// with cage_unavailable if its cage cannot be had, with unavailable if nobody can be asked to run it, and with
	// interrupted if that one was lost while the command ran.
	Run(ctx context.Context, spec Spec, output func([]byte)) (Exit, error)
	// EndSession kills every command of a session and returns when they are gone.
	EndSession(ctx context.Context, session string) error
}
