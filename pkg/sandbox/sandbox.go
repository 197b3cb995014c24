// Package sandbox is the interface between tools and the runner of commands. Package supervisor implements it; tests
// implement it with a shell.
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
	// Argv is the program and its arguments, Dir the working folder (absolute), Env the complete environment.
	Argv []string
	Dir  string
	Env  map[string]string
	// Terminal gives the command a terminal instead of pipes.
	Terminal bool
	// Stderr, if set, receives standard error of a command without a terminal, and output the rest; nil means that both go
	// to output, in their order.
	Stderr func([]byte)
	// Timeout ends the command, 0 for never.
	Timeout time.Duration
	// Cage is the caller's policy, or nil; Root is the project's root, to which its paths are relative. CageID is a cage
	// of [Cages.Hold] for the command; without one the command gets its own cage.
	Cage   *dsl.Cage
	CageID string
	Root   string
	// Refused, if set, receives the connections refused by the cage while the command ran. It and output are not called at
	// the same time. Commands of one cage share its network, so the connection may be another command's.
	Refused func(contract.Attempt)
}

// KilledCode is the exit code of a command that was ended by a timeout, whatever signal ended it.
const KilledCode = 137

// Runner runs commands. It is safe for concurrent use.
type Runner interface {
	// Run runs a command to its end, with an empty standard input. output is called from one goroutine at a time with
	// pieces of the command's output, cut at any byte, and must not keep the slice. When ctx ends, the command and all its
	// descendants are killed and Run returns ctx's error. It fails with shell_spawn_failed if the command cannot be
	// started, with cage_unavailable if no cage can be made, with unavailable if the supervisor cannot be reached, and
	// with interrupted if the supervisor was lost while the command ran.
	Run(ctx context.Context, spec Spec, output func([]byte)) (contract.Exit, error)
	// EndRun kills the commands of a run, and returns when they have ended. It fails with unavailable.
	EndRun(ctx context.Context, run string) error
	// EndSession kills every command of a session and returns when they have ended, with the unreported findings in the
	// folders of its cages.
	EndSession(ctx context.Context, session string) ([]contract.Finding, error)
}

// Background runs commands that outlive the call that started them. It is safe for concurrent use. Its methods fail
// with process_not_found for an unknown process, which never existed, ended long ago, or ended in a restart of its
// supervisor; and with unavailable if the supervisor cannot be reached.
type Background interface {
	// Start starts a command with the given id, a ULID. It fails as [Runner.Run] does, and with rate_limited if the
	// session has too many. If ctx ends before Start returns, the command may or may not run.
	Start(ctx context.Context, id string, spec Spec) error
	// Attach passes the retained output of a process from byte number from on to output, each piece with the number of its
	// first byte, and then returns the state of the process. With follow it continues until the process ends. It ends
	// early with the error of output, and with ctx.
	Attach(
		ctx context.Context, id string, from int64, follow bool, output func(at int64, data []byte) error,
	) (contract.Process, error)
	// Input writes data to the standard input of a process, completely or, with rate_limited, not at all; with end it then
	// closes the input. It fails with invalid_params if the input is closed, and with process_ended.
	Input(ctx context.Context, id string, data []byte, end bool) error
	// Signal sends a signal, by a name such as SIGINT, to the process group. It fails with invalid_params for an
	// unknown name and with process_ended.
	Signal(ctx context.Context, id, name string) error
	// End ends a process with all its descendants and returns when they have ended.
	End(ctx context.Context, id string) (contract.Process, error)
	// Processes returns the processes of a session, including ended ones that are remembered.
	Processes(ctx context.Context, session string) ([]contract.Process, error)
}
