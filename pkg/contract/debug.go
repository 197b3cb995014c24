package contract

import "kaged.dev/pkg/frametype"

// DebugSession is a program that an agent debugs.
type DebugSession struct {
	ID string
	// Owner is the agent's call that started the session; Invocation is the agent's within its run, "" for the root agent.
	Owner      Owner
	Invocation string
	Runtime    string
	// Program is empty for an attached program.
	Program string
	// Status is starting, running, stopped, exited or ended.
	Status string
	// PID is the adapter's pid, 0 before its start.
	PID       int64
	Caged     bool
	StartedAt int64
}

// DebugState is the state of a debugged program.
type DebugState struct {
	ID string
	// Status is running, stopped or exited.
	Status string
	// Reason is the reason of a stop, Text a description of it.
	Reason, Text string
	ExitCode     *int
	Thread       int
	Threads      []DebugThread
	// Location is nil if it is unknown; BreakpointID is 0 for a stop without a breakpoint.
	Location     *DebugFrame
	BreakpointID int
	Output       DebugOutput
}

// DebugMove is a step of a program, or a pause.
type DebugMove struct {
	Action string
	// Operator is the operator who moved the program, "" for the agent.
	Operator string
	At       int64
}

// DebugOutput is a piece of a program's output. Offsets count all bytes written by the program.
type DebugOutput struct {
	Text       string
	From, Next int64
	// Omitted is the number of bytes left out before Text.
	Omitted int64
}

// DebugScope is a group of a frame's variables.
type DebugScope struct {
	Name      string
	Reference int
	Expensive bool
}

// DebugDataInfo describes the ways in which a variable can be watched.
type DebugDataInfo struct {
	DataID, Description string
	AccessTypes         []string
}

// DebugInstruction is a machine instruction.
type DebugInstruction struct {
	Address, Text, Symbol, Path string
	Line                        int
}

// DebugMemory is a piece of memory, in base64.
type DebugMemory struct {
	Address, Data     string
	Unreadable, Wrote int
}

// DebugModule is a part of a program.
type DebugModule struct{ ID, Name, Path, Version string }

// DebugThread is a thread of a program.
type DebugThread struct {
	ID   int
	Name string
}

// DebugFrame is a call of a function.
type DebugFrame struct {
	// ID is the number of the frame in its thread; 0 is the top frame.
	ID   int
	Name string
	// Path is "" for an unknown file.
	Path         string
	Line, Column int
	// Instruction is the reference of its next instruction, "" if it is unknown.
	Instruction string
}

// DebugVariable is a named value.
type DebugVariable struct {
	Name, Value, Type string
	// Reference is the handle of its parts, 0 for a value without parts. Memory is its memory reference.
	Reference int
	Memory    string
}

// DebugBreakpoint is a position at which a program stops.
type DebugBreakpoint struct {
	ID int
	// Kind is line, function, instruction or data.
	Kind, Path string
	// Actual is the line chosen by the adapter, 0 before its choice.
	Line, Actual                    int
	Function, Condition, LogMessage string
	HitCount                        int
	Verified                        bool
	// Reference is its instruction or its data item.
	Message, Reference string
}

// DebugLine is a line of a source file.
type DebugLine struct {
	Line int
	Text string
}

// DebugView is a debug session as shown to operators.
type DebugView struct {
	Session DebugSession
	State   DebugState
	// Moved is nil if the program was not moved.
	Moved       *DebugMove
	Frames      []DebugFrame
	TotalFrames int
	// Frame is the id of the frame that Variables and Source belong to.
	Frame          int
	Variables      []DebugVariable
	TotalVariables int
	Breakpoints    []DebugBreakpoint
	Source         []DebugLine
}

// DebugEvent is a change in a debug session. Exactly one of the pointers is set.
type DebugEvent struct {
	// ID is the id of the debug session, Invocation the agent's within its run, "" for the root agent.
	ID, Invocation, Agent string
	At                    int64
	Running               *DebugRunning
	Stop                  *DebugStop
	Output                *DebugOutput
	End                   *DebugEnd
}

// DebugRunning reports that a program has started or continues.
type DebugRunning struct {
	Runtime, Program string
	// Moved is nil at the start.
	Moved *DebugMove
}

// DebugStop reports that a program has stopped.
type DebugStop struct {
	Reason, Text         string
	Thread, BreakpointID int
	Frames               []DebugFrame
	Locals               []DebugVariable
	Source               []DebugLine
	Moved                *DebugMove
}

// DebugEnd reports the end of a debug session: disconnect, crash or run_ended.
type DebugEnd struct {
	Reason   string
	ExitCode *int
}

// The reasons of [DebugEnd].
const (
	DebugDisconnect = "disconnect"
	DebugCrash      = "crash"
	DebugRunEnded   = "run_ended"
)

// Records implements [Told]. The records of debug sessions are sent with the agent's answers.
func (DebugEvent) Records() []Record { return nil }

// FrameType implements [Told].
func (e DebugEvent) FrameType() frametype.Type {
	switch {
	case e.Running != nil:
		return frametype.DebugSession
	case e.Stop != nil:
		return frametype.DebugStopped
	case e.Output != nil:
		return frametype.DebugOutput
	case e.End != nil:
		return frametype.DebugEnded
	}
	return frametype.Type{}
}

func (DebugEvent) event() {}
