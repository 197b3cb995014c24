package dappool

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

func state(p *dappoolv1.State) *debugging.State {
	if p == nil {
		return nil
	}
	s := &debugging.State{
		Status: p.GetStatus(), Reason: p.GetStoppedReason(), Text: p.GetText(), Thread: int(p.GetThreadId()),
		Threads: threads(p.GetThreads()), BreakpointID: int(p.GetBreakpointId()),
		Output: debugging.Output{
			Text: p.GetOutput().GetText(), From: p.GetOutput().GetFrom(), Next: p.GetOutput().GetNext(),
			Omitted: p.GetOutput().GetOmitted(),
		},
	}
	if p.ExitCode != nil {
		code := int(p.GetExitCode())
		s.ExitCode = &code
	}
	if p.GetLocation() != nil {
		at := frame(p.GetLocation())
		s.Location = &at
	}
	return s
}

func threads(list []*dappoolv1.Thread) []debugging.Thread {
	out := []debugging.Thread{}
	for _, t := range list {
		out = append(out, debugging.Thread{ID: int(t.GetId()), Name: t.GetName()})
	}
	return out
}

func frame(f *dappoolv1.Frame) debugging.Frame {
	return debugging.Frame{
		ID: int(f.GetId()), Name: f.GetName(), Path: f.GetPath(), Line: int(f.GetLine()), Column: int(f.GetColumn()),
		Instruction: f.GetInstructionReference(),
	}
}

func breakpoint(b *dappoolv1.Breakpoint) debugging.Breakpoint {
	return debugging.Breakpoint{
		ID: int(b.GetId()), Kind: b.GetKind(), Path: b.GetPath(), Line: int(b.GetLine()), Actual: int(b.GetActualLine()),
		Function: b.GetFunction(), Condition: b.GetCondition(), LogMessage: b.GetLogMessage(), HitCount: int(b.GetHitCount()),
		Verified: b.GetVerified(), Message: b.GetMessage(), Reference: b.GetReference(),
	}
}

func variable(v *dappoolv1.Variable) debugging.Variable {
	return debugging.Variable{
		Name: v.GetName(), Value: v.GetValue(), Type: v.GetType(), Reference: int(v.GetVariablesReference()),
		Memory: v.GetMemoryReference(),
	}
}

func answer(p *dappoolv1.ActResponse) debugging.Answer {
	a := debugging.Answer{
		Session: p.GetDebugSessionId(), State: state(p.GetState()), Total: int(p.GetTotal()),
		Threads: threads(p.GetThreads()),
		Sources: p.GetSources(), JSON: p.GetJson(), Terminated: p.GetDebuggeeTerminated(),
		Records: contract.RecordsFromProto(p.GetRecords()),
	}
	if p.GetBreakpoint() != nil {
		b := breakpoint(p.GetBreakpoint())
		a.Breakpoint = &b
	}
	for _, b := range p.GetBreakpoints() {
		a.Breakpoints = append(a.Breakpoints, breakpoint(b))
	}
	for _, f := range p.GetFrames() {
		a.Frames = append(a.Frames, frame(f))
	}
	for _, s := range p.GetScopes() {
		a.Scopes = append(a.Scopes, debugging.Scope{
			Name: s.GetName(), Reference: int(s.GetVariablesReference()), Expensive: s.GetExpensive(),
		})
	}
	for _, v := range p.GetVariables() {
		a.Variables = append(a.Variables, variable(v))
	}
	if p.GetResult() != nil {
		v := variable(p.GetResult())
		a.Result = &v
	}
	if i := p.GetDataInfo(); i != nil {
		a.Info = &debugging.DataInfo{DataID: i.GetDataId(), Description: i.GetDescription(), AccessTypes: i.GetAccessTypes()}
	}
	for _, i := range p.GetInstructions() {
		a.Code = append(a.Code, debugging.Instruction{
			Address: i.GetAddress(), Text: i.GetInstruction(), Symbol: i.GetSymbol(), Path: i.GetPath(), Line: int(i.GetLine()),
		})
	}
	if m := p.GetMemory(); m != nil {
		a.Memory = &debugging.Memory{
			Address: m.GetAddress(), Data: m.GetData(), Unreadable: int(m.GetUnreadableBytes()), Wrote: int(m.GetBytesWritten()),
		}
	}
	for _, m := range p.GetModules() {
		a.Modules = append(a.Modules, debugging.Module{
			ID: m.GetId(), Name: m.GetName(), Path: m.GetPath(), Version: m.GetVersion(),
		})
	}
	return a
}
