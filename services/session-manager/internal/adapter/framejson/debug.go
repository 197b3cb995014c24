package framejson

import (
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// The bounds of a debugged program's texts and lists in the frame of a stop: it is on the events channel, for which
// sockets have little room.
const (
	debugNameShare  = 120
	debugPathShare  = 200
	debugValueShare = 256
	maxDebugFrames  = 20
	maxDebugLocals  = 40
	maxDebugLines   = 7
)

// debug returns the frame of an event in a debug session of a run.
func debug(run string, e contract.DebugEvent) proto.Message {
	switch {
	case e.Running != nil:
		return &apiv1.DebugSession{
			RunId: run, InvocationId: e.Invocation, AgentPath: name(e.Agent), DebugSessionId: name(e.ID),
			Runtime: name(e.Running.Runtime), Program: cut(e.Running.Program, targetShare), Moved: move(e.Running.Moved),
			At: e.At,
		}
	case e.Stop != nil:
		return stop(run, e)
	case e.Output != nil:
		return &apiv1.DebugOutput{
			RunId: run, InvocationId: e.Invocation, DebugSessionId: name(e.ID), Text: cut(e.Output.Text, outputShare),
			From: e.Output.From, Next: e.Output.Next, Omitted: e.Output.Omitted,
		}
	case e.End != nil:
		ended := &apiv1.DebugEnded{
			RunId: run, InvocationId: e.Invocation, AgentPath: name(e.Agent), DebugSessionId: name(e.ID),
			Reason: name(e.End.Reason), At: e.At,
		}
		if e.End.ExitCode != nil {
			code := int32(*e.End.ExitCode)
			ended.ExitCode = &code
		}
		return ended
	}
	return nil
}

func stop(run string, e contract.DebugEvent) *apiv1.DebugStopped {
	s := e.Stop
	m := &apiv1.DebugStopped{
		RunId: run, InvocationId: e.Invocation, AgentPath: name(e.Agent), DebugSessionId: name(e.ID),
		StoppedReason: name(s.Reason), Text: cut(s.Text, targetShare), ThreadId: int64(s.Thread),
		BreakpointId: int32(s.BreakpointID), Moved: move(s.Moved), At: e.At,
	}
	for _, f := range s.Frames[:min(len(s.Frames), maxDebugFrames)] {
		m.Frames = append(m.Frames, &commonv1.DebugFrame{
			Id: int32(f.ID), Name: cut(f.Name, debugNameShare), Path: cut(f.Path, debugPathShare), Line: int32(f.Line),
			Column: int32(f.Column),
		})
	}
	if len(m.GetFrames()) > 0 {
		m.Location = m.GetFrames()[0]
	}
	for _, v := range s.Locals[:min(len(s.Locals), maxDebugLocals)] {
		m.Locals = append(m.Locals, &commonv1.DebugVariable{
			Name: cut(v.Name, debugNameShare), Value: cut(v.Value, debugValueShare), Type: cut(v.Type, debugNameShare),
			VariablesReference: int64(v.Reference),
		})
	}
	for _, l := range s.Source[:min(len(s.Source), maxDebugLines)] {
		m.Source = append(m.Source, &commonv1.DebugLine{Line: int32(l.Line), Text: cut(l.Text, debugValueShare)})
	}
	return m
}

//convert:import commonv1 "kaged.dev/proto/gen/kaged/common/v1"
//convert:one move *contract.DebugMove *commonv1.DebugMove Operator=OperatorId >string=name
