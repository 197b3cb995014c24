// Package harnesswire is the wire form of runs between session-manager and the harness: package contract in
// kaged.harness.v1.
package harnesswire

import (
	"cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Event encodes an event with its invocation. It fails for an unknown type.
func Event(h contract.Happening) (*harnessv1.RunEvent, error) {
	ev := event(h.Event)
	if ev == nil {
		return nil, fault.New(fault.Internal, "There is no message for an event of type %T.", h.Event)
	}
	ev.InvocationId = h.InvocationID
	return ev, nil
}

// FromEvent is the reverse of [Event]. The event is nil if this build does not know its type.
func FromEvent(ev *harnessv1.RunEvent) contract.Happening {
	return contract.Happening{InvocationID: ev.GetInvocationId(), Event: fromEvent(ev)}
}

// The events of the stream. An event and a message with equal names and fields need no line.
//
//convert:import llmproto "kaged.dev/pkg/llm/llmproto"
//convert:import structs "kaged.dev/pkg/structs"
//convert:use llmproto.Blocks llmproto.FromBlocks llmproto.Stop llmproto.FromStop llmproto.FromUsage
//convert:use outcomes fromOutcomes kinds turnDone fromTurnDone fromFinished fromAgentEnded
//convert:oneof event fromEvent contract.Event *harnessv1.RunEvent
//convert:both delta fromDelta contract.Delta *harnessv1.Delta >Kind=kinds[in.Thinking]
//convert:with <Thinking=in.Kind==harnessv1.DeltaKind_DELTA_KIND_THINKING
//convert:both toolStarted fromToolStarted contract.ToolStarted *harnessv1.ToolCallStarted
//convert:both toolOutput fromToolOutput contract.ToolOutput *harnessv1.ToolCallOutput CallID=ToolCallId
//convert:both toolFinished fromToolFinished contract.ToolFinished *harnessv1.ToolCallFinished Err=Error
//convert:both Turn FromTurn contract.Turn *harnessv1.Turn Stop=StopReason >Wait=-
//convert:both finished readFinished contract.Finished *harnessv1.RunFinished Stop=StopReason Err=Error
//convert:with >Detail=structs.Of(in.Detail) <Detail=in.Detail.AsMap()
//convert:both retry fromRetry contract.Retry *harnessv1.Retry Err=Error
//convert:both approvalRequested fromApprovalRequested contract.ApprovalRequested *harnessv1.ApprovalRequested
//convert:with ID=ApprovalId CallID=ToolCallId
//convert:both cageChanged fromCageChanged contract.CageChanged *harnessv1.CageChanged >AgentPath=in.Audit.Agent
//convert:both networkTried fromNetworkTried contract.NetworkTried *harnessv1.NetworkTried >AgentPath=in.Audit.Agent
//convert:both budgetState fromBudgetState contract.BudgetState *harnessv1.BudgetState Agent=AgentPath <Walltime=-
//convert:with <Worked=- <AllowUnpriced=-
//convert:both callWanted fromCallWanted contract.CallWanted *harnessv1.CallWanted Agent=AgentPath
//convert:both auditMoved fromAuditMoved contract.AuditMoved *harnessv1.AuditHead Head.Hash=Hash Head.Items=Items
//convert:both AuditHead FromAuditHead contract.AuditHead *harnessv1.AuditHead
//convert:both agentStarted fromAgentStarted contract.AgentStarted *harnessv1.AgentStarted ParentID=ParentInvocationId
//convert:with CallID=ToolCallId Cage=CageStatus >AgentPath=in.Audit.Agent
//convert:both agentEnded readAgentEnded contract.AgentEnded *harnessv1.AgentEnded Err=Error
//convert:both Injections FromInjections []contract.Injection []*harnessv1.Injection
//convert:both injection fromInjection contract.Injection *harnessv1.Injection
//convert:both Amount FromAmount contract.Amount *harnessv1.Amount <int64=positive
//convert:one Granted(invocation string) contract.CallGranted *harnessv1.CallGranted Err=Error >InvocationId=invocation
//convert:one fromGranted *harnessv1.CallGranted contract.CallGranted Error=Err

var kinds = map[bool]harnessv1.DeltaKind{
	false: harnessv1.DeltaKind_DELTA_KIND_TEXT, true: harnessv1.DeltaKind_DELTA_KIND_THINKING,
}

// turnDone encodes a turn, with whether the harness waits.
func turnDone(e contract.TurnDone) *harnessv1.Turn {
	p := Turn(e.Turn)
	p.Wait = e.Wait
	return p
}

func fromTurnDone(p *harnessv1.Turn) contract.TurnDone {
	return contract.TurnDone{Turn: FromTurn(p), Wait: p.GetWait()}
}

// fromAgentEnded decodes the end of an invocation. An unknown outcome counts as a failure.
func fromAgentEnded(p *harnessv1.AgentEnded) contract.AgentEnded {
	e := readAgentEnded(p)
	e.Outcome = cmp.Or(e.Outcome, contract.Failed)
	return e
}

var outcomes = map[contract.Outcome]harnessv1.Outcome{
	contract.Completed: harnessv1.Outcome_OUTCOME_COMPLETED, contract.Failed: harnessv1.Outcome_OUTCOME_FAILED,
	contract.Cancelled: harnessv1.Outcome_OUTCOME_CANCELLED, contract.HandedOver: harnessv1.Outcome_OUTCOME_HANDED_OVER,
}

var fromOutcomes = map[harnessv1.Outcome]contract.Outcome{
	harnessv1.Outcome_OUTCOME_COMPLETED: contract.Completed, harnessv1.Outcome_OUTCOME_FAILED: contract.Failed,
	harnessv1.Outcome_OUTCOME_CANCELLED: contract.Cancelled, harnessv1.Outcome_OUTCOME_HANDED_OVER: contract.HandedOver,
}

// fromFinished decodes the end of a run. An unknown outcome counts as a failure, a stop without a reason as an error.
func fromFinished(p *harnessv1.RunFinished) contract.Finished {
	f := readFinished(p)
	f.Outcome, f.Stop = cmp.Or(f.Outcome, contract.Failed), cmp.Or(f.Stop, llm.StopError)
	return f
}

// positive returns 0 for a negative number.
func positive(n int64) int64 { return max(n, 0) }

// FromGranted is the reverse of [Granted].
func FromGranted(p *harnessv1.CallGranted) (invocation string, g contract.CallGranted) {
	return p.GetInvocationId(), fromGranted(p)
}
