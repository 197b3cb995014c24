package server

import (
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

func stateToProto(a core.Answer) *dappoolv1.State {
	p := &dappoolv1.State{
		DebugSessionId: a.ID, Status: string(a.Status), StoppedReason: valid(a.Reason), Text: a.Text,
		ThreadId: int64(a.Thread),
		Threads:  threadsToProto(a.Threads), BreakpointId: int32(a.BreakpointID), Output: &dappoolv1.Output{
			Text: a.Output.Text, From: a.Output.From, Next: a.Output.Next, Omitted: a.Output.Omitted,
		},
	}
	if a.ExitCode != nil {
		code := int32(*a.ExitCode)
		p.ExitCode = &code
	}
	if a.Location != nil {
		p.Location = frameToProto(*a.Location)
	}
	return p
}

func threadsToProto(list []core.Thread) (out []*dappoolv1.Thread) {
	for _, t := range list {
		out = append(out, &dappoolv1.Thread{Id: int64(t.ID), Name: t.Name})
	}
	return out
}

func frameToProto(f core.Frame) *dappoolv1.Frame {
	return &dappoolv1.Frame{
		Id: int32(f.ID), Name: f.Name, Path: f.Path, Line: int32(f.Line), Column: int32(f.Column),
		InstructionReference: f.Instruction,
	}
}

func answerToProto(a core.Answer) *dappoolv1.ActResponse {
	p := &dappoolv1.ActResponse{
		DebugSessionId: a.ID, Total: int32(max(a.Total, a.TotalFrames)), Threads: threadsToProto(a.Threads),
		Json:               valid(a.JSON),
		DebuggeeTerminated: a.Terminated, Sources: a.Sources, Records: contract.RecordsProto(a.Records),
	}
	if a.Status != "" {
		p.State = stateToProto(a)
	}
	if a.Breakpoint != nil {
		p.Breakpoint = breakpointToProto(*a.Breakpoint)
	}
	for _, b := range a.Breakpoints {
		p.Breakpoints = append(p.Breakpoints, breakpointToProto(b))
	}
	for _, f := range a.Frames {
		p.Frames = append(p.Frames, frameToProto(f))
	}
	for _, s := range a.Scopes {
		p.Scopes = append(p.Scopes, &dappoolv1.Scope{
			Name: s.Name, VariablesReference: int64(s.Reference), Expensive: s.Expensive,
		})
	}
	for _, v := range a.Variables {
		p.Variables = append(p.Variables, variableToProto(v))
	}
	if a.Result != nil {
		p.Result = variableToProto(*a.Result)
	}
	if a.Info != nil {
		p.DataInfo = &dappoolv1.DataInfo{
			DataId: a.Info.DataID, Description: a.Info.Description, AccessTypes: a.Info.AccessTypes,
		}
	}
	for _, i := range a.Code {
		p.Instructions = append(p.Instructions, &dappoolv1.Instruction{
			Address: i.Address, Instruction: i.Text, Symbol: i.Symbol, Path: i.Path, Line: int32(i.Line),
		})
	}
	if m := a.Memory; m != nil {
		p.Memory = &dappoolv1.Memory{
			Address: m.Address, Data: valid(m.Data), UnreadableBytes: int32(m.Unreadable), BytesWritten: int32(m.Wrote),
		}
	}
	for _, m := range a.Modules {
		p.Modules = append(p.Modules, &dappoolv1.Module{Id: m.ID, Name: m.Name, Path: m.Path, Version: m.Version})
	}
	return p
}

func breakpointToProto(b core.Breakpoint) *dappoolv1.Breakpoint {
	return &dappoolv1.Breakpoint{
		Id: int32(b.ID), Kind: b.Kind, Path: valid(b.Path), Line: int32(b.Line), ActualLine: int32(b.Actual),
		Function: b.Function, Condition: b.Condition, HitCount: int32(b.HitCount), LogMessage: b.LogMessage,
		Verified: b.Verified, Message: b.Message, Reference: b.Reference,
	}
}

func variableToProto(v core.Variable) *dappoolv1.Variable {
	return &dappoolv1.Variable{
		Name: v.Name, Value: v.Value, Type: v.Type, VariablesReference: int64(v.Reference), MemoryReference: v.Memory,
	}
}

func infosToProto(list []core.Info) (out []*dappoolv1.DebugSession) {
	for _, i := range list {
		o := i.Owner
		out = append(out, &dappoolv1.DebugSession{
			DebugSessionId: i.ID, Runtime: i.Runtime, Program: valid(i.Program), Status: string(i.Status), Pid: i.PID,
			Caged: i.Caged, StartedAt: i.StartedAt, Agent: &dappoolv1.Agent{
				SessionId: o.SessionID, RunId: o.RunID, CallId: o.CallID, ProjectId: o.ProjectID, AgentPath: o.Agent,
				InvocationId: i.Invocation,
			},
		})
	}
	return out
}

// valid returns text as a message holds it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
