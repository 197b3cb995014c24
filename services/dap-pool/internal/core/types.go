package core

import (
	"cmp"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Start describes a session to start.
type Start struct {
	// Owner is the agent's call that starts it. Invocation is the agent's invocation within its run, "" for the root
	// agent.
	Owner      contract.Owner
	Invocation string
	// Root is the project's folder. Cage is the agent's policy and CageID the id of its cage; they are nil and empty for
	// no cage. A policy without a cage is refused, because the ports of the adapter would be the host's ports.
	Root   string
	Cage   *dsl.Cage
	CageID string
	// Env is the whole environment.
	Env map[string]string

	Runtime string
	Request Request
	// Mode is the way to run Program, "" for the runtime's default. Program is the absolute path of a file, or of the
	// folder of a package.
	Mode, Program string
	// Folder is true if Program is a folder.
	Folder bool
	Args   []string
	// Dir is the absolute path of the program's working folder.
	Dir         string
	StopOnEntry bool
	// Port or ProcessID is the target of Attach.
	Port, ProcessID int
	// Timeout is the time to wait for the first stop.
	Timeout time.Duration
	// Adapters are the adapters that the project declares.
	Adapters []Declared

	// ID is the id of the session, set by the pool.
	ID string
}

// key identifies an agent.
type key struct{ session, run, invocation string }

func keyOf(o contract.Owner, invocation string) key { return key{o.SessionID, o.RunID, invocation} }

func (s *Start) key() key { return keyOf(s.Owner, s.Invocation) }

// caged reports whether the session runs in a cage.
func (s *Start) caged() bool { return s.Cage != nil }

// temporary returns the folder for temporary files as the adapter sees it.
func (s *Start) temporary() string {
	if s.caged() {
		return "/tmp"
	}
	return cmp.Or(s.Env["TMPDIR"], "/tmp")
}

// adapterDir returns the adapter's working folder: the folder of the package if the adapter builds one.
func (s *Start) adapterDir() string {
	if s.Request == Launch && (s.Mode == ModeDebug || s.Mode == ModeTest) {
		return folderOf(s.Program, s.Folder)
	}
	return s.Root
}

// Status is the state of a debugged program.
type Status string

// The statuses in the form for answers.
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
	// SessionID selects one of the agent's sessions, "" for the only one.
	SessionID string
	// Timeout is the time to wait for the next stop.
	Timeout time.Duration

	// Fields of breakpoints: Path and Line, or Function, or Exceptions.
	Path       string
	Line       int
	Function   string
	Exceptions []string
	// SetExceptions is true if the breakpoint is for Exceptions.
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
	// Memory is a memory reference, Count the number of bytes, instructions, variables or modules.
	Memory            string
	Count             int
	InstructionOffset int
	ResolveSymbols    bool
	Data              string
	AllowPartial      bool
	Command           string
	Arguments         string
	Terminate         bool

	// Operator is the operator who moves the program, "" for the agent.
	Operator string
}

func (d *Do) key() key { return keyOf(d.Owner, d.Invocation) }

// Answer is the answer to an action. The action determines the fields that are set.
type Answer struct {
	ID     string
	Status Status
	// Reason is the reason why the program is stopped, Text a further description.
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
	// Terminated is true if a disconnect has ended the program.
	Terminated bool

	// Moves are the operators' moves of the program since the last answer.
	Moves   []contract.DebugMove
	Records []contract.Record
}

// Types that are also sent to other services.
type (
	Thread      = contract.DebugThread
	Frame       = contract.DebugFrame
	Scope       = contract.DebugScope
	Variable    = contract.DebugVariable
	Output      = contract.DebugOutput
	DataInfo    = contract.DebugDataInfo
	Instruction = contract.DebugInstruction
	Memory      = contract.DebugMemory
	Module      = contract.DebugModule
)

// Breakpoint is a position at which a program stops.
type Breakpoint struct {
	ID       int
	Kind     string
	Path     string
	Line     int
	Function string
	// Actual is the line that the adapter chose, 0 if unknown.
	Actual                int
	Condition, LogMessage string
	HitCount              int
	Verified              bool
	Message               string
	Reference, Access     string
	Offset                int
	adapter               int // the adapter's id of the breakpoint, 0 if unknown
	passes                int // the number of hits, if the pool counts them
	temporary             bool
}
