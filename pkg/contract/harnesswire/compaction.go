package harnesswire

import (
	"kaged.dev/pkg/contract"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

var phases = map[contract.CompactionPhase]harnessv1.CompactionPhase{
	contract.CompactionTriggered: harnessv1.CompactionPhase_COMPACTION_PHASE_TRIGGERED,
	contract.CompactionCompleted: harnessv1.CompactionPhase_COMPACTION_PHASE_COMPLETED,
	contract.CompactionFailed:    harnessv1.CompactionPhase_COMPACTION_PHASE_FAILED,
	contract.CompactionNoop:      harnessv1.CompactionPhase_COMPACTION_PHASE_NOOP,
}

func compaction(c contract.Compaction) *harnessv1.Compaction {
	out := &harnessv1.Compaction{
		Phase: phases[c.Phase], CompactionId: c.ID, Trigger: string(c.Trigger), Strategy: c.Strategy,
		BeforeTokens: c.Before, AfterTokens: c.After, WindowTokens: c.Window,
		UpperThreshold: c.Upper, LowerThreshold: c.Lower, Turns: int32(c.Turns), Messages: int32(c.Messages),
		Summary: c.Summary, Fallback: c.Fallback, Reason: c.Reason, DurationMs: c.DurationMS, At: c.At,
		Audit: c.Audit.Proto(), Compactor: compactor(c.Compactor),
	}
	for _, f := range c.Fired {
		out.Fired = append(out.Fired, &harnessv1.FiredHook{
			Name: f.Name, Role: f.Role, DurationMs: f.DurationMS, Result: f.Result,
		})
	}
	for _, s := range c.Spans {
		span := &harnessv1.Span{MessageId: s.MessageID, FromStep: int32(s.From), ToStep: int32(s.To)}
		out.Spans = append(out.Spans, span)
	}
	return out
}

func fromCompaction(p *harnessv1.Compaction) contract.Compaction {
	c := contract.Compaction{
		ID: p.GetCompactionId(), Trigger: contract.CompactionTrigger(p.GetTrigger()), Strategy: p.GetStrategy(),
		Before: p.GetBeforeTokens(), After: p.GetAfterTokens(), Window: p.GetWindowTokens(),
		Upper: p.GetUpperThreshold(), Lower: p.GetLowerThreshold(), Turns: int(p.GetTurns()),
		Messages: int(p.GetMessages()), Summary: p.GetSummary(), Fallback: p.GetFallback(), Reason: p.GetReason(),
		DurationMS: p.GetDurationMs(), At: p.GetAt(),
		Audit: contract.RecordFromProto(p.GetAudit()), Compactor: fromCompactor(p.GetCompactor()),
	}
	for phase, of := range phases {
		if of == p.GetPhase() {
			c.Phase = phase
		}
	}
	for _, f := range p.GetFired() {
		c.Fired = append(c.Fired, contract.FiredHook{
			Name: f.GetName(), Role: f.GetRole(), DurationMS: f.GetDurationMs(), Result: f.GetResult(),
		})
	}
	for _, s := range p.GetSpans() {
		span := contract.Span{MessageID: s.GetMessageId(), From: int(s.GetFromStep()), To: int(s.GetToStep())}
		c.Spans = append(c.Spans, span)
	}
	return c
}

func compactor(u *contract.CompactorUse) *harnessv1.CompactorUse {
	if u == nil {
		return nil
	}
	return &harnessv1.CompactorUse{
		Provider: u.Provider, Model: u.Model, InputTokens: u.Input, OutputTokens: u.Output, CostUsd: u.Cost,
	}
}

func fromCompactor(p *harnessv1.CompactorUse) *contract.CompactorUse {
	if p == nil {
		return nil
	}
	return &contract.CompactorUse{
		Provider: p.GetProvider(), Model: p.GetModel(), Input: p.GetInputTokens(), Output: p.GetOutputTokens(),
		Cost: p.CostUsd,
	}
}

// Order returns an order to compact as a message.
func Order(o contract.CompactOrder) *harnessv1.CompactOrder {
	return &harnessv1.CompactOrder{CompactionId: o.ID, AgentPath: o.Agent, Strategy: o.Strategy, DryRun: o.Dry}
}

// FromOrder is the reverse of [Order].
func FromOrder(p *harnessv1.CompactOrder) contract.CompactOrder {
	return contract.CompactOrder{
		ID: p.GetCompactionId(), Agent: p.GetAgentPath(), Strategy: p.GetStrategy(), Dry: p.GetDryRun(),
	}
}

// Compacted returns the outcome of an order as a message.
func Compacted(c contract.Compacted) *harnessv1.CompactResponse {
	e := c.Estimate
	out := &harnessv1.CompactResponse{Pruned: c.Pruned, Estimate: &harnessv1.ContextEstimate{
		InputTokens: e.Input, WindowTokens: e.Window, ReservedTokens: e.Reserved, Calibrated: e.Calibrated, Error: e.Error,
	}}
	for _, stage := range c.Stages {
		out.Stages = append(out.Stages, compaction(stage))
	}
	return out
}

// FromCompacted is the reverse of [Compacted].
func FromCompacted(p *harnessv1.CompactResponse) contract.Compacted {
	e := p.GetEstimate()
	out := contract.Compacted{Pruned: p.GetPruned(), Estimate: contract.ContextEstimate{
		Input: e.GetInputTokens(), Window: e.GetWindowTokens(), Reserved: e.GetReservedTokens(),
		Calibrated: e.GetCalibrated(),
	}}
	if e != nil {
		out.Estimate.Error = e.Error
	}
	for _, stage := range p.GetStages() {
		out.Stages = append(out.Stages, fromCompaction(stage))
	}
	return out
}
