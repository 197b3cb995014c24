// Package harnesswire is the wire form of runs between session-manager and the harness: package contract in
// kaged.harness.v1.
package harnesswire

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	"kaged.dev/pkg/structs"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Event returns an event with its invocation as a message. It fails for an event of no known type.
func Event(h contract.Happening) (*harnessv1.RunEvent, error) {
	ev, err := event(h.Event)
	if err != nil {
		return nil, err
	}
	ev.InvocationId = h.InvocationID
	return ev, nil
}

func event(e contract.Event) (*harnessv1.RunEvent, error) {
	switch e := e.(type) {
	case contract.Delta:
		kind := harnessv1.DeltaKind_DELTA_KIND_TEXT
		if e.Thinking {
			kind = harnessv1.DeltaKind_DELTA_KIND_THINKING
		}
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Kind: kind, Text: e.Text}}}, nil
	case contract.MessageStart:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_MessageStart{MessageStart: &harnessv1.MessageStart{
			Provider: e.Provider, Model: e.Model, Driver: e.Driver, StartedAt: e.StartedAt,
		}}}, nil
	case contract.ToolStarted:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolCall{ToolCall: &harnessv1.ToolCallStarted{
			Call: llmproto.Call(e.Call), Step: int32(e.Step),
		}}}, nil
	case contract.ToolOutput:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolOutput{ToolOutput: &harnessv1.ToolCallOutput{
			ToolCallId: e.CallID, Stream: e.Stream, Text: e.Text,
		}}}, nil
	case contract.ToolFinished:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
			Result: llmproto.Result(e.Result), Step: int32(e.Step), Input: e.Input, Error: e.Err.Proto(),
			DurationMs: e.DurationMS, Audit: contract.RecordsProto(e.Audit), Ledger: LedgerEntries(e.Ledger),
		}}}, nil
	case contract.TurnDone:
		turn := Turn(e.Turn)
		turn.Wait = e.Wait
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Turn{Turn: turn}}, nil
	case contract.StepDone:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_StepDone{
			StepDone: &harnessv1.StepDone{Step: int32(e.Step)},
		}}, nil
	case contract.Finished:
		return finished(e), nil
	}
	return note(e)
}

// note returns an event beside the conversation.
func note(e contract.Event) (*harnessv1.RunEvent, error) {
	switch e := e.(type) {
	case contract.Retry:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Retry{Retry: &harnessv1.Retry{
			Error: e.Err.Proto(), Attempt: int32(e.Attempt), DelayMs: e.DelayMS, Provider: e.Provider, Model: e.Model,
		}}}, nil
	case contract.Retracted:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Retracted{Retracted: &harnessv1.Retracted{
			Step: int32(e.Step), Reason: e.Reason, Audit: e.Audit.Proto(),
		}}}, nil
	case contract.Record:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Audit{Audit: e.Proto()}}, nil
	case contract.ApprovalRequested:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Approval{Approval: &harnessv1.ApprovalRequested{
			ApprovalId: e.ID, ToolCallId: e.CallID, Step: int32(e.Step), Subject: e.Subject.Proto(),
			Audit: contract.RecordsProto(e.Audit),
		}}}, nil
	case contract.CageChanged:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Cage{Cage: &harnessv1.CageChanged{
			AgentPath: e.Audit.Agent, Status: string(e.Status), Tier: e.Tier, BestEffort: e.BestEffort, Summary: e.Summary,
			Ended: e.Ended, Audit: e.Audit.Proto(), Notes: e.Notes, Found: contract.FindingsProto(e.Found),
		}}}, nil
	case contract.NetworkTried:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Network{Network: &harnessv1.NetworkTried{
			AgentPath: e.Audit.Agent, Audit: e.Audit.Proto(), Attempt: e.Attempt.Proto(),
		}}}, nil
	case contract.BudgetState:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_BudgetState{BudgetState: &harnessv1.BudgetState{
			Scope: string(e.Scope), AgentPath: e.Agent,
			Limit: Amount(e.Limit), Spent: Amount(e.Spent), Reserved: Amount(e.Reserved),
		}}}, nil
	case contract.CallWanted:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallWanted{CallWanted: &harnessv1.CallWanted{
			Call: int32(e.Call), AgentPath: e.Agent, Model: e.Model, Amount: Amount(e.Amount), Unpriced: e.Unpriced,
			Audit: contract.RecordsProto(e.Audit),
		}}}, nil
	case contract.CallSettled:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallSettled{CallSettled: &harnessv1.CallSettled{
			Call: int32(e.Call), Amount: Amount(e.Amount), Estimated: e.Estimated, OfTurn: e.OfTurn,
		}}}, nil
	case contract.DebugEvent:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Debug{Debug: e.Proto()}}, nil
	case contract.Compaction:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Compaction{Compaction: compaction(e)}}, nil
	case contract.AuditMoved:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_AuditHead{AuditHead: AuditHead(e.Head)}}, nil
	}
	return agent(e)
}

// agent returns the beginning or the end of an invocation.
func agent(e contract.Event) (*harnessv1.RunEvent, error) {
	switch e := e.(type) {
	case contract.AgentStarted:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_AgentStarted{AgentStarted: &harnessv1.AgentStarted{
			ParentInvocationId: e.ParentID, ToolCallId: e.CallID, Name: e.Name, AgentPath: e.Audit.Agent, Prompt: e.Prompt,
			CageStatus: string(e.Cage), Tools: e.Tools, StartedAt: e.StartedAt, Audit: e.Audit.Proto(),
		}}}, nil
	case contract.AgentEnded:
		return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_AgentEnded{AgentEnded: &harnessv1.AgentEnded{
			Outcome: outcomes[e.Outcome], Error: e.Err.Proto(), Text: e.Text, Truncated: e.Truncated, Steps: int32(e.Steps),
			Usage: llmproto.Usage(e.Usage), Cost: llmproto.Cost(e.Cost), DurationMs: e.DurationMS,
			FilesChanged: e.FilesChanged, EndedAt: e.EndedAt, Audit: e.Audit.Proto(),
		}}}, nil
	}
	return nil, fault.New(fault.Internal, "There is no message for an event of type %T.", e)
}

// FromEvent is the reverse of [Event]. The event is nil if this build does not know it.
func FromEvent(ev *harnessv1.RunEvent) contract.Happening {
	return contract.Happening{InvocationID: ev.GetInvocationId(), Event: fromEvent(ev)}
}

func fromEvent(ev *harnessv1.RunEvent) contract.Event {
	switch e := ev.GetEvent().(type) {
	case *harnessv1.RunEvent_Delta:
		thinking := e.Delta.GetKind() == harnessv1.DeltaKind_DELTA_KIND_THINKING
		return contract.Delta{Text: e.Delta.GetText(), Thinking: thinking}
	case *harnessv1.RunEvent_MessageStart:
		m := e.MessageStart
		return contract.MessageStart{
			Provider: m.GetProvider(), Model: m.GetModel(), Driver: m.GetDriver(), StartedAt: m.GetStartedAt(),
		}
	case *harnessv1.RunEvent_ToolCall:
		return contract.ToolStarted{Step: int(e.ToolCall.GetStep()), Call: llmproto.FromCall(e.ToolCall.GetCall())}
	case *harnessv1.RunEvent_ToolOutput:
		o := e.ToolOutput
		return contract.ToolOutput{CallID: o.GetToolCallId(), Stream: o.GetStream(), Text: o.GetText()}
	case *harnessv1.RunEvent_ToolResult:
		r := e.ToolResult
		return contract.ToolFinished{
			Step: int(r.GetStep()), Input: r.GetInput(), Result: llmproto.FromResult(r.GetResult()),
			Err: fault.FromProto(r.GetError()), Audit: contract.RecordsFromProto(r.GetAudit()), DurationMS: r.GetDurationMs(),
			Ledger: FromLedgerEntries(r.GetLedger()),
		}
	case *harnessv1.RunEvent_Turn:
		return contract.TurnDone{Turn: FromTurn(e.Turn), Wait: e.Turn.GetWait()}
	case *harnessv1.RunEvent_StepDone:
		return contract.StepDone{Step: int(e.StepDone.GetStep())}
	case *harnessv1.RunEvent_Finished:
		return fromFinished(e.Finished)
	}
	return fromNote(ev)
}

// fromNote is the reverse of note.
func fromNote(ev *harnessv1.RunEvent) contract.Event {
	switch e := ev.GetEvent().(type) {
	case *harnessv1.RunEvent_Retry:
		r := e.Retry
		return contract.Retry{
			Err: fault.FromProto(r.GetError()), Attempt: int(r.GetAttempt()), DelayMS: r.GetDelayMs(),
			Provider: r.GetProvider(), Model: r.GetModel(),
		}
	case *harnessv1.RunEvent_Retracted:
		r := e.Retracted
		return contract.Retracted{
			Step: int(r.GetStep()), Reason: r.GetReason(), Audit: contract.RecordFromProto(r.GetAudit()),
		}
	case *harnessv1.RunEvent_Audit:
		return contract.RecordFromProto(e.Audit)
	case *harnessv1.RunEvent_Approval:
		a := e.Approval
		return contract.ApprovalRequested{
			ID: a.GetApprovalId(), CallID: a.GetToolCallId(), Step: int(a.GetStep()),
			Subject: contract.SubjectFromProto(a.GetSubject()), Audit: contract.RecordsFromProto(a.GetAudit()),
		}
	case *harnessv1.RunEvent_Cage:
		c := e.Cage
		return contract.CageChanged{
			Status: contract.CageStatus(c.GetStatus()), Tier: c.GetTier(), BestEffort: c.GetBestEffort(),
			Summary: c.GetSummary(), Notes: c.GetNotes(), Ended: c.GetEnded(),
			Found: contract.FindingsFromProto(c.GetFound()), Audit: contract.RecordFromProto(c.GetAudit()),
		}
	case *harnessv1.RunEvent_Network:
		n := e.Network
		return contract.NetworkTried{
			Attempt: contract.AttemptFromProto(n.GetAttempt()), Audit: contract.RecordFromProto(n.GetAudit()),
		}
	case *harnessv1.RunEvent_Compaction:
		return fromCompaction(e.Compaction)
	case *harnessv1.RunEvent_BudgetState:
		b := e.BudgetState
		return contract.BudgetState{
			Scope: contract.BudgetScope(b.GetScope()), Agent: b.GetAgentPath(), Limit: FromAmount(b.GetLimit()),
			Spent: FromAmount(b.GetSpent()), Reserved: FromAmount(b.GetReserved()),
		}
	case *harnessv1.RunEvent_CallWanted:
		w := e.CallWanted
		return contract.CallWanted{
			Call: int(w.GetCall()), Agent: w.GetAgentPath(), Model: w.GetModel(), Amount: FromAmount(w.GetAmount()),
			Unpriced: w.GetUnpriced(), Audit: contract.RecordsFromProto(w.GetAudit()),
		}
	case *harnessv1.RunEvent_CallSettled:
		d := e.CallSettled
		return contract.CallSettled{
			Call: int(d.GetCall()), Amount: FromAmount(d.GetAmount()), Estimated: d.GetEstimated(), OfTurn: d.GetOfTurn(),
		}
	case *harnessv1.RunEvent_Debug:
		return contract.DebugEventFromProto(e.Debug)
	case *harnessv1.RunEvent_AuditHead:
		return contract.AuditMoved{Head: FromAuditHead(e.AuditHead)}
	case *harnessv1.RunEvent_AgentStarted:
		a := e.AgentStarted
		return contract.AgentStarted{
			ParentID: a.GetParentInvocationId(), CallID: a.GetToolCallId(), Name: a.GetName(), Prompt: a.GetPrompt(),
			Cage: contract.CageStatus(a.GetCageStatus()), Tools: a.GetTools(), StartedAt: a.GetStartedAt(),
			Audit: contract.RecordFromProto(a.GetAudit()),
		}
	case *harnessv1.RunEvent_AgentEnded:
		return fromAgentEnded(e.AgentEnded)
	}
	return nil
}

// fromAgentEnded reads the end of an invocation. An outcome that this build does not know is a failure.
func fromAgentEnded(p *harnessv1.AgentEnded) contract.AgentEnded {
	e := contract.AgentEnded{
		Outcome: fromOutcomes[p.GetOutcome()], Err: fault.FromProto(p.GetError()), Text: p.GetText(),
		Truncated: p.GetTruncated(), Steps: int(p.GetSteps()), Usage: llmproto.FromUsage(p.GetUsage()),
		Cost: llmproto.FromCost(p.GetCost()), DurationMS: p.GetDurationMs(), FilesChanged: p.GetFilesChanged(),
		EndedAt: p.GetEndedAt(), Audit: contract.RecordFromProto(p.GetAudit()),
	}
	if e.Outcome == 0 {
		e.Outcome = contract.Failed
	}
	return e
}

var outcomes = map[contract.Outcome]harnessv1.Outcome{
	contract.Completed: harnessv1.Outcome_OUTCOME_COMPLETED, contract.Failed: harnessv1.Outcome_OUTCOME_FAILED,
	contract.Cancelled: harnessv1.Outcome_OUTCOME_CANCELLED,
}

var fromOutcomes = map[harnessv1.Outcome]contract.Outcome{
	harnessv1.Outcome_OUTCOME_COMPLETED: contract.Completed, harnessv1.Outcome_OUTCOME_FAILED: contract.Failed,
	harnessv1.Outcome_OUTCOME_CANCELLED: contract.Cancelled,
}

func finished(f contract.Finished) *harnessv1.RunEvent {
	return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{Finished: &harnessv1.RunFinished{
		Outcome: outcomes[f.Outcome], StopReason: llmproto.Stop(f.Stop), Usage: llmproto.Usage(f.Usage),
		Stats: llmproto.Stats(f.Stats), Error: f.Err.Proto(), ClosingText: f.ClosingText,
		Partial: llmproto.Blocks(f.Partial), Steps: int32(f.Steps), Detail: structs.Of(f.Detail),
	}}}
}

// fromFinished is the reverse of finished. An outcome that this build does not know is a failure, a stop without a
// reason an error.
func fromFinished(p *harnessv1.RunFinished) contract.Finished {
	f := contract.Finished{
		Outcome: fromOutcomes[p.GetOutcome()], Stop: llmproto.FromStop(p.GetStopReason()),
		Usage: llmproto.FromUsage(p.GetUsage()), Stats: llmproto.FromStats(p.GetStats()), Err: fault.FromProto(p.GetError()),
		ClosingText: p.GetClosingText(), Partial: llmproto.FromBlocks(p.GetPartial()), Steps: int(p.GetSteps()),
		Detail: p.GetDetail().AsMap(),
	}
	if f.Outcome == 0 {
		f.Outcome = contract.Failed
	}
	if f.Stop == "" {
		f.Stop = llm.StopError
	}
	return f
}

// Turn returns a turn as a message, in which form it is also stored.
func Turn(t contract.Turn) *harnessv1.Turn {
	return &harnessv1.Turn{
		Step: int32(t.Step), Blocks: llmproto.Blocks(t.Blocks), StopReason: llmproto.Stop(t.Stop),
		Usage: llmproto.Usage(t.Usage), Stats: llmproto.Stats(t.Stats), Provider: t.Provider, Model: t.Model,
	}
}

// FromTurn is the reverse of [Turn].
func FromTurn(p *harnessv1.Turn) contract.Turn {
	return contract.Turn{
		Step: int(p.GetStep()), Blocks: llmproto.FromBlocks(p.GetBlocks()), Stop: llmproto.FromStop(p.GetStopReason()),
		Usage: llmproto.FromUsage(p.GetUsage()), Stats: llmproto.FromStats(p.GetStats()),
		Provider: p.GetProvider(), Model: p.GetModel(),
	}
}

// AuditHead returns where the record of model requests stands, as a message.
func AuditHead(h contract.AuditHead) *harnessv1.AuditHead {
	return &harnessv1.AuditHead{Hash: h.Hash, Items: int32(h.Items)}
}

// FromAuditHead is the reverse of [AuditHead].
func FromAuditHead(p *harnessv1.AuditHead) contract.AuditHead {
	return contract.AuditHead{Hash: p.GetHash(), Items: int(p.GetItems())}
}

// Amount returns a use of models as a message.
func Amount(a contract.Amount) *harnessv1.Amount {
	return &harnessv1.Amount{NanoUsd: a.NanoUSD, Tokens: a.Tokens, Calls: a.Calls}
}

// FromAmount is the reverse of [Amount]. A negative number is none.
func FromAmount(p *harnessv1.Amount) contract.Amount {
	return contract.Amount{
		NanoUSD: max(p.GetNanoUsd(), 0), Tokens: max(p.GetTokens(), 0), Calls: max(p.GetCalls(), 0),
	}
}

// Granted returns the answer to a call that is wanted in an invocation, as a message.
func Granted(invocation string, g contract.CallGranted) *harnessv1.CallGranted {
	return &harnessv1.CallGranted{InvocationId: invocation, Call: int32(g.Call), Error: g.Err.Proto(), Waits: g.Waits}
}

// FromGranted is the reverse of [Granted].
func FromGranted(p *harnessv1.CallGranted) (invocation string, g contract.CallGranted) {
	return p.GetInvocationId(), contract.CallGranted{
		Call: int(p.GetCall()), Err: fault.FromProto(p.GetError()), Waits: p.GetWaits(),
	}
}
