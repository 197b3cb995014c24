package contract

import "kaged.dev/pkg/frametype"

// DebugSession is a program that an agent debugs.
type DebugSession struct {
	ID string
	// Owner is the agent's call that began it; Invocation is the agent's within its run, "" for the root agent.
	Owner      Owner
	Invocation string
	Runtime    string
	// Program is empty for one that was attached to.
	Program string
	// Status is starting, running, stopped, exited or ended.
	Status string
	// PID is the adapter's, 0 before its start.
	PID       int64
	Caged     bool
	StartedAt int64
}

// DebugState is the state of a debugged program.
type DebugState struct {
	ID string
	// Status is running, stopped or exited.
	Status string
	// Reason is why it is stopped, Text more about it.
	Reason, Text string
	ExitCode     *int
	Thread       int
	Threads      []DebugThread
	// Location is nil for an unknown one, BreakpointID 0 away from breakpoints.
	Location     *DebugFrame
	BreakpointID int
	Output       DebugOutput
}

// DebugMove is a step of a program, or a pause.
type DebugMove struct {
	Action string
	// Operator is its author, "" for the agent.
	Operator string
	At       int64
}

// DebugOutput is a piece of a program's output. Offsets count the bytes that it ever wrote.
type DebugOutput struct {
	Text       string
	From, Next int64
	// Omitted is how many bytes before Text are not shown.
	Omitted int64
}

// DebugThread is a thread of a program.
type DebugThread struct {
	ID   int
	Name string
}

// DebugFrame is a call of a function.
type DebugFrame struct {
	// ID counts the frames of a thread from 0, the top one.
	ID   int
	Name string
	// Path is "" for an unknown file.
	Path         string
	Line, Column int
	// Instruction is the reference of its next instruction, "" for unknown.
	Instruction string
}

// DebugVariable is a named value.
type DebugVariable struct {
	Name, Value, Type string
	// Reference is the handle of its parts, 0 for a value without parts. Memory is its memory reference.
	Reference int
	Memory    string
}

// DebugBreakpoint is a place where a program is to stop.
type DebugBreakpoint struct {
	ID int
	// Kind is line, function, instruction or data.
	Kind, Path string
	// Actual is the line that the adapter chose, 0 before it has.
	Line, Actual                    int
	Function, Condition, LogMessage string
	HitCount                        int
	Verified                        bool
	// Reference is its instruction or its data.
	Message, Reference string
}

// DebugLine is a line of a source file.
type DebugLine struct {
	Line int
	Text string
}

// DebugView is a debug session as people see it.
type DebugView struct {
	Session DebugSession
	State   DebugState
	// Moved is nil for a program that was not moved.
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

// DebugEvent is a change in a debug session: one of the pointers is set.
type DebugEvent struct {
	// ID is the debug session's, Invocation the agent's within its run, "" for the root agent.
	ID, Invocation, Agent string
	At                    int64
	Running               *DebugRunning
	Stop                  *DebugStop
	Output                *DebugOutput
	End                   *DebugEnd
}

// DebugRunning says that a program runs, at first or again.
type DebugRunning struct {
	Runtime, Program string
	// Moved is nil at its start.
	Moved *DebugMove
}

// DebugStop says that a program has stopped.
type DebugStop struct {
	Reason, Text         string
	Thread, BreakpointID int
	Frames               []DebugFrame
	Locals               []DebugVariable
	Source               []DebugLine
	Moved                *DebugMove
}

// DebugEnd says that a debug session is over: disconnect, crash or run_ended.
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

// Records implements [Told]. The records of debug sessions ride on the agent's answers.
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
