package server

import (
	"strings"

	"kaged.dev/services/dap-pool/internal/core"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

//convert:import contract "kaged.dev/pkg/contract"
//convert:one ownerFromProto *dappoolv1.Agent contract.Owner AgentPath=Agent >Kind=-
//convert:one stateOf core.Answer contract.DebugState
//convert:one breakpointOf core.Breakpoint contract.DebugBreakpoint
//convert:use breakpointToProto
//convert:one answer core.Answer *dappoolv1.ActResponse ID=DebugSessionId
//convert:with >Total=max(int32(in.Total),int32(in.TotalFrames))
//convert:with Terminated=DebuggeeTerminated >State=state(in) Info=DataInfo Code=Instructions
//convert:one scope core.Scope *dappoolv1.Scope Reference=VariablesReference
//convert:one dataInfo core.DataInfo *dappoolv1.DataInfo
//convert:one instruction core.Instruction *dappoolv1.Instruction Text=Instruction
//convert:one memory core.Memory *dappoolv1.Memory Unreadable=UnreadableBytes Wrote=BytesWritten >string=valid
//convert:one module core.Module *dappoolv1.Module

func stateToProto(a core.Answer) *commonv1.DebugState { return stateOf(a).Proto() }

// state returns the state of an answer, nil for an action that only read.
func state(a core.Answer) *commonv1.DebugState {
	if a.Status == "" {
		return nil
	}
	return stateToProto(a)
}

func answerToProto(a core.Answer) *dappoolv1.ActResponse {
	a.JSON = valid(a.JSON)
	return answer(a)
}

func breakpointToProto(b core.Breakpoint) *commonv1.DebugBreakpoint { return breakpointOf(b).Proto() }

// valid returns text as valid UTF-8, which messages require.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
