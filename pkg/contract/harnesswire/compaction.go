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
		Audit: c.Audit.Proto(),
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
		Audit: contract.RecordFromProto(p.GetAudit()),
	}
	for phase, of := range phases {
		if of == p.GetPhase() {
			c.Phase = phase
		}
	}
	for _, s := range p.GetSpans() {
		span := contract.Span{MessageID: s.GetMessageId(), From: int(s.GetFromStep()), To: int(s.GetToStep())}
		c.Spans = append(c.Spans, span)
	}
	return c
}
