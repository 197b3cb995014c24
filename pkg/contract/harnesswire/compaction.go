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

//convert:use phases fromPhase compactor fromCompactor
//convert:both compaction fromCompaction contract.Compaction *harnessv1.Compaction ID=CompactionId Before=BeforeTokens
//convert:with After=AfterTokens Window=WindowTokens Upper=UpperThreshold Lower=LowerThreshold
//convert:with <SummaryMessageID=-
//convert:both firedHook fromFiredHook contract.FiredHook *harnessv1.FiredHook
//convert:both span fromSpan contract.Span *harnessv1.Span From=FromStep To=ToStep

func fromPhase(p harnessv1.CompactionPhase) (phase contract.CompactionPhase) {
	for known, of := range phases {
		if of == p {
			phase = known
		}
	}
	return phase
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
	for _, e := range c.Calls {
		out.Calls = append(out.Calls, event(e))
	}
	return out
}

// Wanted returns a model call that waits for its grant between runs as a message.
func Wanted(w contract.CallWanted) *harnessv1.CompactResponse {
	return &harnessv1.CompactResponse{Wanted: event(w)}
}

// FromWanted is the reverse of [Wanted], false for a result.
func FromWanted(p *harnessv1.CompactResponse) (w contract.CallWanted, ok bool) {
	if p.GetWanted() != nil {
		w, ok = fromEvent(p.GetWanted()).(contract.CallWanted)
	}
	return w, ok
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
	for _, p := range p.GetCalls() {
		if e := fromEvent(p); e != nil {
			out.Calls = append(out.Calls, e)
		}
	}
	return out
}
