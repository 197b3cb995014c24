package core

import (
	"cmp"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Start describes a session that is to begin.
type Start struct {
	// Owner is the agent's call that begins it; Invocation is the agent's within its run, "" for the root agent.
	Owner      contract.Owner
	Invocation string
	// Root is the project's folder. Cage is the agent's policy and CageID its cage, nil and empty without one. A
	// policy without a cage is refused: the ports of the adapter would be the host's.
	Root   string
	Cage   *dsl.Cage
	CageID string
	// Env is the whole environment.
	Env map[string]string

	Runtime string
	Request Request
	// Mode is how Program is run, "" for the runtime's default. Program is absolute: a file, or a folder of a
	// package.
	Mode, Program string
	// Folder says that Program is a folder.
	Folder bool
	Args   []string
	// Dir is the program's working folder, absolute.
	Dir         string
	StopOnEntry bool
	// Port or ProcessID is the target of Attach.
	Port, ProcessID int
	// Timeout is how long the first stop is waited for.
	Timeout time.Duration
	// Adapters are those that the project declares.
	Adapters []Declared

	// ID is the session's, filled by the pool.
	ID string
}

// key names an agent.
type key struct{ session, run, invocation string }

func keyOf(o contract.Owner, invocation string) key { return key{o.SessionID, o.RunID, invocation} }

func (s *Start) key() key { return keyOf(s.Owner, s.Invocation) }

// caged reports whether the session is to run in a cage.
func (s *Start) caged() bool { return s.Cage != nil }

// temporary is the folder for temporary files that the adapter sees.
func (s *Start) temporary() string {
	if s.caged() {
		return "/tmp"
	}
	return cmp.Or(s.Env["TMPDIR"], "/tmp")
}

// adapterDir is the adapter's working folder: that of a package which it builds.
func (s *Start) adapterDir() string {
	if s.Request == Launch && (s.Mode == ModeDebug || s.Mode == ModeTest) {
		return folderOf(s.Program, s.Folder)
	}
	return s.Root
}

// Status is the state of a debugged program.
type Status string

// The statuses as answers show them.
const (
	Running Status = "running"
	Stopped Status = "stopped"
	Exited  Status = "exited"

	starting Status = "starting"
	ended    Status = "ended"
)

// Action is one of the actions on a session.
type Action int

// The actions.
const (
	SetBreakpoint Action = iota + 1
	RemoveBreakpoint
	ListBreakpoints
	SetInstructionBreakpoint
	RemoveInstructionBreakpoint
	DataBreakpointInfo
	SetDataBreakpoint
	RemoveDataBreakpoint
	StepInto
	StepOver
	StepOut
	Continue
	Pause
	StackTrace
	Threads
	Scopes
	Variables
	Evaluate
	Disassemble
	ReadMemory
	WriteMemory
	Modules
	LoadedSources
	CustomRequest
	Disconnect
)

// Do is an action on a session.
type Do struct {
	// Owner and Invocation name the agent.
	Owner      contract.Owner
	Invocation string
	Action     Action
	// SessionID picks one of the agent's sessions, "" for the only one.
	SessionID string
	// Timeout is how long the next stop is waited for.
	Timeout time.Duration

	// Of breakpoints: Path and Line, or Function, or Exceptions.
	Path       string
	Line       int
	Function   string
	Exceptions []string
	// SetExceptions says that Exceptions is meant.
	SetExceptions       bool
	Condition           string
	HitCount            int
	LogMessage          string
	Instruction         string
	Offset              int
	DataID, AccessType  string
	Name                string
	VariablesReference  int
	ThreadID            int
	Levels, First       int
	Frame               int
	Scope               string
	Filter, Expand      string
	Expression, Context string
	// Memory is a memory reference, Count a number of bytes, instructions, variables or modules.
	Memory            string
	Count             int
	InstructionOffset int
	ResolveSymbols    bool
	Data              string
	AllowPartial      bool
	Command           string
	Arguments         string
	Terminate         bool

	// Operator moves the program in the agent's stead, "" for the agent.
	Operator string
}

func (d *Do) key() key { return keyOf(d.Owner, d.Invocation) }

// Answer is the answer to an action; the fields that are set depend on it.
type Answer struct {
	ID     string
	Status Status
	// Reason is why the program is stopped, Text more about it.
	Reason, Text string
	ExitCode     *int
	Thread       int
	Threads      []Thread
	Location     *Frame
	BreakpointID int
	Output       Output

	Breakpoint  *Breakpoint
	Breakpoints []Breakpoint
	Frames      []Frame
	TotalFrames int
	Scopes      []Scope
	Variables   []Variable
	Total       int
	Result      *Variable
	Info        *DataInfo
	Code        []Instruction
	Memory      *Memory
	Modules     []Module
	Sources     []string
	JSON        string
	// Terminated says that a disconnect has ended the program.
	Terminated bool

	// Moves are how operators moved the program since the last answer.
	Moves   []contract.DebugMove
	Records []contract.Record
}

// Facts that cross wires.
type (
	Thread   = contract.DebugThread
	Frame    = contract.DebugFrame
	Variable = contract.DebugVariable
	Output   = contract.DebugOutput
)

// Scope is a group of a frame's variables.
type Scope struct {
	Name      string
	Reference int
	Expensive bool
}

// Breakpoint is a place where a program is to stop.
type Breakpoint struct {
	ID       int
	Kind     string
	Path     string
	Line     int
	Function string
	// Actual is the line that the adapter chose, 0 for none.
	Actual                int
	Condition, LogMessage string
	HitCount              int
	Verified              bool
	Message               string
	Reference, Access     string
	Offset                int
	adapter               int // the adapter's id of it, 0 for none
	passes                int // how often the program was there, where the pool counts
	temporary             bool
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

// Memory is a piece of memory.
type Memory struct {
	Address, Data     string
	Unreadable, Wrote int
}

// Module is a part of a program.
type Module struct{ ID, Name, Path, Version string }
