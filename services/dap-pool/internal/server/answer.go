package server

import (
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/dap-pool/internal/core"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

func stateToProto(a core.Answer) *commonv1.DebugState {
	return contract.DebugState{
		ID: a.ID, Status: string(a.Status), Reason: a.Reason, Text: a.Text, ExitCode: a.ExitCode, Thread: a.Thread,
		Threads: a.Threads, Location: a.Location, BreakpointID: a.BreakpointID, Output: a.Output,
	}.Proto()
}

func answerToProto(a core.Answer) *dappoolv1.ActResponse {
	p := &dappoolv1.ActResponse{
		DebugSessionId: a.ID, Total: int32(max(a.Total, a.TotalFrames)), Threads: contract.DebugThreadsProto(a.Threads),
		Json:               valid(a.JSON),
		DebuggeeTerminated: a.Terminated, Sources: a.Sources, Records: contract.RecordsProto(a.Records),
		Frames: contract.DebugFramesProto(a.Frames), Variables: contract.DebugVariablesProto(a.Variables),
		Moves: contract.DebugMovesProto(a.Moves),
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
	for _, s := range a.Scopes {
		p.Scopes = append(p.Scopes, &dappoolv1.Scope{
			Name: s.Name, VariablesReference: int64(s.Reference), Expensive: s.Expensive,
		})
	}
	if a.Result != nil {
		p.Result = a.Result.Proto()
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

func breakpointToProto(b core.Breakpoint) *commonv1.DebugBreakpoint {
	return contract.DebugBreakpoint{
		ID: b.ID, Kind: b.Kind, Path: b.Path, Line: b.Line, Actual: b.Actual, Function: b.Function, Condition: b.Condition,
		LogMessage: b.LogMessage, HitCount: b.HitCount, Verified: b.Verified, Message: b.Message, Reference: b.Reference,
	}.Proto()
}

// valid returns text as a message holds it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
