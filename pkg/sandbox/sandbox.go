// Package sandbox is the interface between tools and the runner of commands. The sandbox meets it; tests meet it
// with a shell of their own.
package sandbox

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Spec describes a command.
type Spec struct {
	Owner contract.Owner
	// Argv is the program and its arguments, Dir the working folder (absolute), Env the whole environment.
	Argv []string
	Dir  string
	Env  map[string]string
	// Terminal gives the command a terminal instead of pipes.
	Terminal bool
	// Stderr, if set, is given standard error of a command without a terminal, as output is given the rest; nil means that
	// both go to output, in their order.
	Stderr func([]byte)
	// Timeout ends the command, 0 for never.
	Timeout time.Duration
	// Cage is the caller's, or nil; Root is the project's root, which its paths are relative to. CageID is the cage
	// of [Cages.Hold] that it runs in; without one it has one of its own.
	Cage   *dsl.Cage
	CageID string
	Root   string
	// Refused, if set, is given the connections that the cage refused while the command ran, one call at a time
	// with output. Commands of one cage share its network, so it may be another's.
	Refused func(contract.Attempt)
}

// KilledCode is the exit code of a command that was ended for taking too long, for any fatal signal.
const KilledCode = 137

// Runner runs commands. It is safe for concurrent use.
type Runner interface {
	// Run runs a command to its end, with an empty standard input. output is called from one goroutine at a time
	// with the command's output, cut anywhere, and must not keep the slice. When ctx ends the command and
	// everything it started are killed and Run returns ctx's error. It fails with shell_spawn_failed if the command
	// cannot be started, with cage_unavailable if it can have no cage, with unavailable if the supervisor cannot be
	// reached, and with interrupted if the supervisor was lost while the command ran.
	Run(ctx context.Context, spec Spec, output func([]byte)) (contract.Exit, error)
	// EndRun kills the commands of a run, and returns when they are gone. It fails with unavailable.
	EndRun(ctx context.Context, run string) error
	// EndSession kills every command of a session and returns when they are gone, with the untold findings in the
	// folders of its cages.
	EndSession(ctx context.Context, session string) ([]contract.Finding, error)
}

// Background runs commands that outlive the call that started them. It is safe for concurrent use. Its methods fail
// with process_not_found for an unknown process: it never existed, it ended long ago, or it ended when its
// supervisor was restarted; and with unavailable if the supervisor cannot be reached.
type Background interface {
	// Start starts a command known by id, a ULID. It fails as [Runner.Run] does, and with rate_limited if the
	// session has too many. When ctx ends before Start returns, the command may run or not.
	Start(ctx context.Context, id string, spec Spec) error
	// Attach hands over the kept output of a process from byte number from on, each piece with the number of its
	// first byte, and returns the state of the process after that. With follow it goes on until the process ends.
	// It ends early with the error of output, and with ctx.
	Attach(
		ctx context.Context, id string, from int64, follow bool, output func(at int64, data []byte) error,
	) (contract.Process, error)
	// Input writes to the standard input of a process, all of data or, with rate_limited, not a byte; with end it
	// then closes it. It fails with invalid_params if it is closed and with process_ended.
	Input(ctx context.Context, id string, data []byte, end bool) error
	// Signal sends a signal, by a name such as SIGINT, to the process group. It fails with invalid_params for an
	// unknown name and with process_ended.
	Signal(ctx context.Context, id, name string) error
	// End ends a process with everything it started and returns when it is gone.
	End(ctx context.Context, id string) (contract.Process, error)
	// Processes returns the processes of a session, those included that ended and are remembered.
	Processes(ctx context.Context, session string) ([]contract.Process, error)
}
