package contract

import (
	"strings"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// utf8 returns text as a message holds it.
func utf8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// code returns an exit code as a message holds it, and codeFrom is the reverse.
func code(c *int) *int32 {
	if c == nil {
		return nil
	}
	n := int32(*c)
	return &n
}

func codeFrom(c *int32) *int {
	if c == nil {
		return nil
	}
	n := int(*c)
	return &n
}

// Proto returns the debug session as a message.
func (s DebugSession) Proto() *commonv1.DebugSession {
	return &commonv1.DebugSession{
		DebugSessionId: s.ID, SessionId: s.Owner.SessionID, RunId: s.Owner.RunID, InvocationId: s.Invocation,
		AgentPath: s.Owner.Agent, Runtime: s.Runtime, Program: utf8(s.Program), Status: s.Status, Pid: s.PID, Caged: s.Caged,
		StartedAt: s.StartedAt,
	}
}

// DebugSessionFromProto is the reverse of [DebugSession.Proto].
func DebugSessionFromProto(p *commonv1.DebugSession) DebugSession {
	return DebugSession{
		ID: p.GetDebugSessionId(), Invocation: p.GetInvocationId(), Runtime: p.GetRuntime(), Program: p.GetProgram(),
		Owner:  Owner{SessionID: p.GetSessionId(), RunID: p.GetRunId(), Agent: p.GetAgentPath()},
		Status: p.GetStatus(), PID: p.GetPid(), Caged: p.GetCaged(), StartedAt: p.GetStartedAt(),
	}
}

// DebugSessionsProto returns debug sessions as messages.
func DebugSessionsProto(list []DebugSession) []*commonv1.DebugSession {
	return each(list, DebugSession.Proto)
}

// DebugSessionsFromProto is the reverse of [DebugSessionsProto].
func DebugSessionsFromProto(list []*commonv1.DebugSession) []DebugSession {
	return each(list, DebugSessionFromProto)
}

// each returns f of each entry of a list, nil for an empty list.
func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

// Proto returns the state as a message.
func (s DebugState) Proto() *commonv1.DebugState {
	p := &commonv1.DebugState{
		DebugSessionId: s.ID, Status: s.Status, StoppedReason: utf8(s.Reason), Text: utf8(s.Text), ExitCode: code(s.ExitCode),
		ThreadId: int64(s.Thread), Threads: DebugThreadsProto(s.Threads), BreakpointId: int32(s.BreakpointID),
		Output: s.Output.Proto(),
	}
	if s.Location != nil {
		p.Location = s.Location.Proto()
	}
	return p
}

// DebugStateFromProto is the reverse of [DebugState.Proto].
func DebugStateFromProto(p *commonv1.DebugState) DebugState {
	s := DebugState{
		ID: p.GetDebugSessionId(), Status: p.GetStatus(), Reason: p.GetStoppedReason(), Text: p.GetText(),
		Thread: int(p.GetThreadId()), Threads: DebugThreadsFromProto(p.GetThreads()), BreakpointID: int(p.GetBreakpointId()),
		Output: DebugOutputFromProto(p.GetOutput()),
	}
	if p != nil {
		s.ExitCode = codeFrom(p.ExitCode)
	}
	if p.GetLocation() != nil {
		at := DebugFrameFromProto(p.GetLocation())
		s.Location = &at
	}
	return s
}

// Proto returns the move as a message, nil for a nil one.
func (m *DebugMove) Proto() *commonv1.DebugMove {
	if m == nil {
		return nil
	}
	return &commonv1.DebugMove{Action: m.Action, OperatorId: m.Operator, At: m.At}
}

// DebugMoveFromProto is the reverse of [DebugMove.Proto].
func DebugMoveFromProto(p *commonv1.DebugMove) *DebugMove {
	if p == nil {
		return nil
	}
	return &DebugMove{Action: p.GetAction(), Operator: p.GetOperatorId(), At: p.GetAt()}
}

// DebugMovesProto returns moves as messages.
func DebugMovesProto(list []DebugMove) []*commonv1.DebugMove {
	return each(list, func(m DebugMove) *commonv1.DebugMove { return m.Proto() })
}

// DebugMovesFromProto is the reverse of [DebugMovesProto].
func DebugMovesFromProto(list []*commonv1.DebugMove) []DebugMove {
	return each(list, func(p *commonv1.DebugMove) DebugMove { return *DebugMoveFromProto(p) })
}

// Proto returns the output as a message.
func (o DebugOutput) Proto() *commonv1.DebugOutput {
	return &commonv1.DebugOutput{Text: utf8(o.Text), From: o.From, Next: o.Next, Omitted: o.Omitted}
}

// DebugOutputFromProto is the reverse of [DebugOutput.Proto].
func DebugOutputFromProto(p *commonv1.DebugOutput) DebugOutput {
	return DebugOutput{Text: p.GetText(), From: p.GetFrom(), Next: p.GetNext(), Omitted: p.GetOmitted()}
}

// DebugThreadsProto returns threads as messages.
func DebugThreadsProto(list []DebugThread) []*commonv1.DebugThread {
	return each(list, func(t DebugThread) *commonv1.DebugThread {
		return &commonv1.DebugThread{Id: int64(t.ID), Name: utf8(t.Name)}
	})
}

// DebugThreadsFromProto is the reverse of [DebugThreadsProto].
func DebugThreadsFromProto(list []*commonv1.DebugThread) []DebugThread {
	return each(list, func(p *commonv1.DebugThread) DebugThread { return DebugThread{int(p.GetId()), p.GetName()} })
}

// Proto returns the frame as a message.
func (f DebugFrame) Proto() *commonv1.DebugFrame {
	return &commonv1.DebugFrame{
		Id: int32(f.ID), Name: utf8(f.Name), Path: utf8(f.Path), Line: int32(f.Line), Column: int32(f.Column),
		InstructionReference: utf8(f.Instruction),
	}
}

// DebugFrameFromProto is the reverse of [DebugFrame.Proto].
func DebugFrameFromProto(p *commonv1.DebugFrame) DebugFrame {
	return DebugFrame{
		ID: int(p.GetId()), Name: p.GetName(), Path: p.GetPath(), Line: int(p.GetLine()), Column: int(p.GetColumn()),
		Instruction: p.GetInstructionReference(),
	}
}

// DebugFramesProto returns frames as messages.
func DebugFramesProto(list []DebugFrame) []*commonv1.DebugFrame { return each(list, DebugFrame.Proto) }

// DebugFramesFromProto is the reverse of [DebugFramesProto].
func DebugFramesFromProto(list []*commonv1.DebugFrame) []DebugFrame {
	return each(list, DebugFrameFromProto)
}

// Proto returns the variable as a message.
func (v DebugVariable) Proto() *commonv1.DebugVariable {
	return &commonv1.DebugVariable{
		Name: utf8(v.Name), Value: utf8(v.Value), Type: utf8(v.Type), VariablesReference: int64(v.Reference),
		MemoryReference: utf8(v.Memory),
	}
}

// DebugVariableFromProto is the reverse of [DebugVariable.Proto].
func DebugVariableFromProto(p *commonv1.DebugVariable) DebugVariable {
	return DebugVariable{
		Name: p.GetName(), Value: p.GetValue(), Type: p.GetType(), Reference: int(p.GetVariablesReference()),
		Memory: p.GetMemoryReference(),
	}
}

// DebugVariablesProto returns variables as messages.
func DebugVariablesProto(list []DebugVariable) []*commonv1.DebugVariable {
	return each(list, DebugVariable.Proto)
}

// DebugVariablesFromProto is the reverse of [DebugVariablesProto].
func DebugVariablesFromProto(list []*commonv1.DebugVariable) []DebugVariable {
	return each(list, DebugVariableFromProto)
}

// Proto returns the breakpoint as a message.
func (b DebugBreakpoint) Proto() *commonv1.DebugBreakpoint {
	return &commonv1.DebugBreakpoint{
		Id: int32(b.ID), Kind: b.Kind, Path: utf8(b.Path), Line: int32(b.Line), ActualLine: int32(b.Actual),
		Function: utf8(b.Function), Condition: utf8(b.Condition), HitCount: int32(b.HitCount), LogMessage: utf8(b.LogMessage),
		Verified: b.Verified, Message: utf8(b.Message), Reference: utf8(b.Reference),
	}
}

// DebugBreakpointFromProto is the reverse of [DebugBreakpoint.Proto].
func DebugBreakpointFromProto(p *commonv1.DebugBreakpoint) DebugBreakpoint {
	return DebugBreakpoint{
		ID: int(p.GetId()), Kind: p.GetKind(), Path: p.GetPath(), Line: int(p.GetLine()), Actual: int(p.GetActualLine()),
		Function: p.GetFunction(), Condition: p.GetCondition(), LogMessage: p.GetLogMessage(), HitCount: int(p.GetHitCount()),
		Verified: p.GetVerified(), Message: p.GetMessage(), Reference: p.GetReference(),
	}
}

// DebugBreakpointsProto returns breakpoints as messages.
func DebugBreakpointsProto(list []DebugBreakpoint) []*commonv1.DebugBreakpoint {
	return each(list, DebugBreakpoint.Proto)
}

// DebugBreakpointsFromProto is the reverse of [DebugBreakpointsProto].
func DebugBreakpointsFromProto(list []*commonv1.DebugBreakpoint) []DebugBreakpoint {
	return each(list, DebugBreakpointFromProto)
}

// DebugLinesProto returns lines as messages.
func DebugLinesProto(list []DebugLine) []*commonv1.DebugLine {
	return each(list, func(l DebugLine) *commonv1.DebugLine {
		return &commonv1.DebugLine{Line: int32(l.Line), Text: utf8(l.Text)}
	})
}

// DebugLinesFromProto is the reverse of [DebugLinesProto].
func DebugLinesFromProto(list []*commonv1.DebugLine) []DebugLine {
	return each(list, func(p *commonv1.DebugLine) DebugLine { return DebugLine{int(p.GetLine()), p.GetText()} })
}

// Proto returns the view as a message, nil for a nil one.
func (v *DebugView) Proto() *commonv1.DebugView {
	if v == nil {
		return nil
	}
	return &commonv1.DebugView{
		Session: v.Session.Proto(), State: v.State.Proto(), Moved: v.Moved.Proto(), Frames: DebugFramesProto(v.Frames),
		TotalFrames: int32(v.TotalFrames), FrameId: int32(v.Frame), Variables: DebugVariablesProto(v.Variables),
		TotalVariables: int32(v.TotalVariables), Breakpoints: DebugBreakpointsProto(v.Breakpoints),
		Source: DebugLinesProto(v.Source),
	}
}

// DebugViewFromProto is the reverse of [DebugView.Proto].
func DebugViewFromProto(p *commonv1.DebugView) *DebugView {
	if p == nil {
		return nil
	}
	return &DebugView{
		Session: DebugSessionFromProto(p.GetSession()), State: DebugStateFromProto(p.GetState()),
		Moved: DebugMoveFromProto(p.GetMoved()), Frames: DebugFramesFromProto(p.GetFrames()),
		TotalFrames: int(p.GetTotalFrames()), Frame: int(p.GetFrameId()),
		Variables: DebugVariablesFromProto(p.GetVariables()), TotalVariables: int(p.GetTotalVariables()),
		Breakpoints: DebugBreakpointsFromProto(p.GetBreakpoints()), Source: DebugLinesFromProto(p.GetSource()),
	}
}

// Proto returns the event as a message.
func (e DebugEvent) Proto() *commonv1.DebugEvent {
	p := &commonv1.DebugEvent{DebugSessionId: e.ID, InvocationId: e.Invocation, AgentPath: e.Agent, At: e.At}
	switch {
	case e.Running != nil:
		p.Event = &commonv1.DebugEvent_Running{Running: &commonv1.DebugRunning{
			Runtime: e.Running.Runtime, Program: utf8(e.Running.Program), Moved: e.Running.Moved.Proto(),
		}}
	case e.Stop != nil:
		p.Event = &commonv1.DebugEvent_Stopped{Stopped: &commonv1.DebugStop{
			Reason: utf8(e.Stop.Reason), Text: utf8(e.Stop.Text), ThreadId: int64(e.Stop.Thread),
			BreakpointId: int32(e.Stop.BreakpointID), Frames: DebugFramesProto(e.Stop.Frames),
			Locals: DebugVariablesProto(e.Stop.Locals), Source: DebugLinesProto(e.Stop.Source), Moved: e.Stop.Moved.Proto(),
		}}
	case e.Output != nil:
		p.Event = &commonv1.DebugEvent_Output{Output: e.Output.Proto()}
	case e.End != nil:
		p.Event = &commonv1.DebugEvent_Ended{Ended: &commonv1.DebugEnd{Reason: e.End.Reason, ExitCode: code(e.End.ExitCode)}}
	}
	return p
}

// DebugEventFromProto is the reverse of [DebugEvent.Proto].
func DebugEventFromProto(p *commonv1.DebugEvent) DebugEvent {
	e := DebugEvent{ID: p.GetDebugSessionId(), Invocation: p.GetInvocationId(), Agent: p.GetAgentPath(), At: p.GetAt()}
	switch x := p.GetEvent().(type) {
	case *commonv1.DebugEvent_Running:
		e.Running = &DebugRunning{
			Runtime: x.Running.GetRuntime(), Program: x.Running.GetProgram(), Moved: DebugMoveFromProto(x.Running.GetMoved()),
		}
	case *commonv1.DebugEvent_Stopped:
		s := x.Stopped
		e.Stop = &DebugStop{
			Reason: s.GetReason(), Text: s.GetText(), Thread: int(s.GetThreadId()), BreakpointID: int(s.GetBreakpointId()),
			Frames: DebugFramesFromProto(s.GetFrames()), Locals: DebugVariablesFromProto(s.GetLocals()),
			Source: DebugLinesFromProto(s.GetSource()), Moved: DebugMoveFromProto(s.GetMoved()),
		}
	case *commonv1.DebugEvent_Output:
		o := DebugOutputFromProto(x.Output)
		e.Output = &o
	case *commonv1.DebugEvent_Ended:
		e.End = &DebugEnd{Reason: x.Ended.GetReason(), ExitCode: codeFrom(x.Ended.ExitCode)}
	}
	return e
}
