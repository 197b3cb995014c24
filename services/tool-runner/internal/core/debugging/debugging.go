// Package debugging is the tool debug's view of debug sessions. Lines and columns count from 1, frames from 0,
// the top; paths are absolute.
package debugging

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Agent names the agent that debugs, and its call.
type Agent struct {
	Owner contract.Owner
	// Invocation is the agent's within its run, "" for the root agent.
	Invocation string
}

// Start describes a session that is to begin.
type Start struct {
	Agent Agent
	Root  string
	// Cage is the agent's policy and CageID its cage, nil and empty without one.
	Cage   *dsl.Cage
	CageID string
	// Env is the whole environment.
	Env           map[string]string
	Runtime, Mode string
	// Attach attaches to the program at Port or with ProcessID, in place of launching Program, a file or a
	// folder.
	Attach          bool
	Port, ProcessID int
	Program         string
	Folder          bool
	Args            []string
	Dir             string
	StopOnEntry     bool
	Timeout         time.Duration
}

// Do is an action on a session, named as the tool names it.
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

// Answer is the answer to an action; the fields that are set depend on it.
type Answer struct {
	Session string
	// State is nil for an action that only looks.
	State       *State
	Breakpoint  *Breakpoint
	Breakpoints []Breakpoint
	Frames      []Frame
	// Total is how many frames, variables, modules or sources there are.
	Total      int
	Threads    []Thread
	Scopes     []Scope
	Variables  []Variable
	Result     *Variable
	Info       *DataInfo
	Code       []Instruction
	Memory     *Memory
	Modules    []Module
	Sources    []string
	JSON       string
	Terminated bool
	Records    []contract.Record
}

// State is the state of a program.
type State struct {
	Status, Reason, Text string
	ExitCode             *int
	Thread               int
	Threads              []Thread
	// Location is nil for an unknown one.
	Location     *Frame
	BreakpointID int
	Output       Output
}

// Output is the output since the last state.
type Output struct {
	Text                string
	From, Next, Omitted int64
}

// Thread is a thread.
type Thread struct {
	ID   int
	Name string
}

// Frame is a call of a function.
type Frame struct {
	ID           int
	Name         string
	Path         string
	Line, Column int
	Instruction  string
}

// Breakpoint is a place where a program is to stop.
type Breakpoint struct {
	ID                              int
	Kind, Path                      string
	Line, Actual                    int
	Function, Condition, LogMessage string
	HitCount                        int
	Verified                        bool
	Message, Reference              string
}

// Scope is a group of variables.
type Scope struct {
	Name      string
	Reference int
	Expensive bool
}

// Variable is a named value.
type Variable struct {
	Name, Value, Type string
	// Reference is the handle of its parts, 0 for a value without parts.
	Reference int
	Memory    string
}

// DataInfo says how a variable can be watched.
type DataInfo struct {
	DataID, Description string
	AccessTypes         []string
}

// Instruction is a machine instruction.
type Instruction struct {
	Address, Text, Symbol, Path string
	Line                        int
}

// Memory is a piece of memory, in base64.
type Memory struct {
	Address, Data     string
	Unreadable, Wrote int
}

// Module is a part of a program.
type Module struct{ ID, Name, Path, Version string }

// Debuggers debug programs. It is safe for concurrent use. Its methods fail with unavailable if the pool cannot
// be asked.
type Debuggers interface {
	// Start begins a session. It fails with the codes of DAPPoolService.Start.
	Start(ctx context.Context, s Start) (Answer, error)
	// Act does an action. It fails with the codes of DAPPoolService.Act.
	Act(ctx context.Context, d Do) (Answer, error)
	// EndRun ends the sessions of a run, of all runs for "", and returns the records that no answer has carried.
	EndRun(ctx context.Context, session, run string) ([]contract.Record, error)
}
