package dappool

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

func state(p *commonv1.DebugState) *contract.DebugState {
	if p == nil {
		return nil
	}
	s := contract.DebugStateFromProto(p)
	return &s
}

func variable(p *commonv1.DebugVariable) *contract.DebugVariable {
	if p == nil {
		return nil
	}
	v := contract.DebugVariableFromProto(p)
	return &v
}

func answer(p *dappoolv1.ActResponse) debugging.Answer {
	a := debugging.Answer{
		Session: p.GetDebugSessionId(), State: state(p.GetState()), Total: int(p.GetTotal()),
		Threads: contract.DebugThreadsFromProto(p.GetThreads()), Frames: contract.DebugFramesFromProto(p.GetFrames()),
		Breakpoints: contract.DebugBreakpointsFromProto(p.GetBreakpoints()), Result: variable(p.GetResult()),
		Variables: contract.DebugVariablesFromProto(p.GetVariables()), Moves: contract.DebugMovesFromProto(p.GetMoves()),
		Sources: p.GetSources(), JSON: p.GetJson(), Terminated: p.GetDebuggeeTerminated(),
		Records: contract.RecordsFromProto(p.GetRecords()),
	}
	if p.GetBreakpoint() != nil {
		b := contract.DebugBreakpointFromProto(p.GetBreakpoint())
		a.Breakpoint = &b
	}
	for _, s := range p.GetScopes() {
		a.Scopes = append(a.Scopes, debugging.Scope{
			Name: s.GetName(), Reference: int(s.GetVariablesReference()), Expensive: s.GetExpensive(),
		})
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
