// Package debugging is the tool debug's view of debug sessions. Lines and columns count from 1, frames from 0,
// the top; paths are absolute.
package debugging

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Agent is the debugging agent and its call.
type Agent struct {
	Owner contract.Owner
	// Invocation is the agent's within its run, "" for the root agent.
	Invocation string
}

// Start describes a new session.
type Start struct {
	Agent Agent
	Root  string
	// Cage is the agent's policy and CageID its cage, nil and empty without one.
	Cage   *dsl.Cage
	CageID string
	// Env is the complete environment.
	Env           map[string]string
	Runtime, Mode string
	// Attach attaches to the program at Port or with ProcessID, instead of launching Program, a file or a folder.
	Attach          bool
	Port, ProcessID int
	Program         string
	Folder          bool
	Args            []string
	Dir             string
	StopOnEntry     bool
	Timeout         time.Duration
	// Adapters are the adapters that the project declares.
	Adapters []dsl.DebugAdapter
}

// Do is an action on a session, with the tool's name for it.
type Do struct {
	Agent   Agent
	Action  string
	Session string
	Timeout time.Duration

	Path       string
	Line       int
	Function   string
	Exceptions *[]string
	Condition  string
	HitCount   int
	LogMessage string

	Instruction        string
	Offset             int
	DataID, AccessType string
	Name               string
	Reference          int

	ThreadID, Levels, First, Frame int
	Scope, Filter, Expand          string
	Expression, Context            string

	Memory            string
	Count             int
	InstructionOffset int
	ResolveSymbols    bool
	Data              string
	AllowPartial      bool
	Command           string
	Arguments         string
	Terminate         bool
}

// Answer is the answer to an action, which decides the set fields.
type Answer struct {
	Session string
	// State is nil for a read-only action.
	State       *contract.DebugState
	Breakpoint  *contract.DebugBreakpoint
	Breakpoints []contract.DebugBreakpoint
	Frames      []contract.DebugFrame
	// Total is the number of all frames, variables, modules or sources.
	Total      int
	Threads    []contract.DebugThread
	Scopes     []contract.DebugScope
	Variables  []contract.DebugVariable
	Result     *contract.DebugVariable
	Info       *contract.DebugDataInfo
	Code       []contract.DebugInstruction
	Memory     *contract.DebugMemory
	Modules    []contract.DebugModule
	Sources    []string
	JSON       string
	Terminated bool
	// Moves are the operators' moves of the program since the last answer.
	Moves   []contract.DebugMove
	Records []contract.Record
}

// Debuggers debug programs. It is safe for concurrent use. Its methods fail with unavailable if the pool cannot be
// reached.
type Debuggers interface {
	// Start begins a session. It fails with the codes of DAPPoolService.Start.
	Start(ctx context.Context, s Start) (Answer, error)
	// Act runs an action. It fails with the codes of DAPPoolService.Act.
	Act(ctx context.Context, d Do) (Answer, error)
	// EndRun ends the sessions of a run, of all runs for "", and returns the records that no answer has included.
	EndRun(ctx context.Context, session, run string) ([]contract.Record, error)
	// Watch reports changes in the sessions of a run until ctx ends or the pool is lost. Paths in the project are relative
	// to its root. It fails if tell fails.
	Watch(ctx context.Context, session, run string, tell func(e contract.DebugEvent, root string) error) error
	// View returns a debug session for operators, with the root of its project.
	View(ctx context.Context, l Look) (seen Seen, root string, err error)
	// Control moves a program for an operator. It fails with the codes of DAPPoolService.Control.
	Control(ctx context.Context, m Move) (Moved, error)
}

// Look selects a view for operators. ID is the debug session's, "" for the last active one, or else the last.
type Look struct {
	Session, ID string
	Frame       int
	Output      int64
}

// Seen is a view for operators: all debug sessions of a session, and one of them, nil if there are none.
type Seen struct {
	Sessions []contract.DebugSession
	View     *contract.DebugView
}

// Move is a step of a program by an operator, or an expression.
type Move struct {
	Session, ID, Operator string
	// Action is the tool's name of the action.
	Action     string
	Timeout    time.Duration
	Thread     int
	Expression string
	Frame      int
}

// Moved is the outcome of a [Move]: one field is set.
type Moved struct {
	State  *contract.DebugState
	Result *contract.DebugVariable
}
