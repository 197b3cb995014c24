package dappool

import (
	"kaged.dev/pkg/contract"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

func state(p *commonv1.DebugState) *contract.DebugState {
	if p == nil {
		return nil
	}
	s := contract.DebugStateFromProto(p)
	return &s
}

//convert:import dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
//convert:import debugging "kaged.dev/services/tool-runner/internal/core/debugging"
//convert:one moved *dappoolv1.ControlResponse debugging.Moved
//convert:one answer *dappoolv1.ActResponse debugging.Answer DebugSessionId=Session DataInfo=Info Instructions=Code
//convert:with DebuggeeTerminated=Terminated
//convert:one scope *dappoolv1.Scope contract.DebugScope VariablesReference=Reference
//convert:one dataInfo *dappoolv1.DataInfo contract.DebugDataInfo
//convert:one instruction *dappoolv1.Instruction contract.DebugInstruction Instruction=Text
//convert:one memory *dappoolv1.Memory contract.DebugMemory UnreadableBytes=Unreadable BytesWritten=Wrote
//convert:one module *dappoolv1.Module contract.DebugModule
//convert:one agent debugging.Agent *dappoolv1.Agent Owner.SessionID=SessionId Owner.RunID=RunId Invocation=InvocationId
//convert:with Owner.CallID=CallId Owner.ProjectID=ProjectId Owner.Agent=AgentPath
