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

//convert:use phases fromPhase
//convert:both compaction fromCompaction contract.Compaction *harnessv1.Compaction ID=CompactionId Before=BeforeTokens
//convert:with After=AfterTokens Window=WindowTokens Upper=UpperThreshold Lower=LowerThreshold
//convert:with <SummaryMessageID=-
//convert:both compactor fromCompactor *contract.CompactorUse *harnessv1.CompactorUse Input=InputTokens
//convert:with Output=OutputTokens Cost=CostUsd
//convert:both Order FromOrder contract.CompactOrder *harnessv1.CompactOrder ID=CompactionId Agent=AgentPath Dry=DryRun
//convert:both estimate fromEstimate contract.ContextEstimate *harnessv1.ContextEstimate Input=InputTokens
//convert:with Window=WindowTokens Reserved=ReservedTokens
//convert:both Compacted FromCompacted contract.Compacted *harnessv1.CompactResponse >Wanted=-
//convert:with >Calls=events(in.Calls) <Calls=knownEvents(in.GetCalls())
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

// Wanted encodes a model call that waits for its grant between runs.
func Wanted(w contract.CallWanted) *harnessv1.CompactResponse {
	return &harnessv1.CompactResponse{Wanted: event(w)}
}

// FromWanted is the reverse of [Wanted]. ok is false for a result.
func FromWanted(p *harnessv1.CompactResponse) (w contract.CallWanted, ok bool) {
	if p.GetWanted() != nil {
		w, ok = fromEvent(p.GetWanted()).(contract.CallWanted)
	}
	return w, ok
}

func events(list []contract.Event) []*harnessv1.RunEvent {
	var out []*harnessv1.RunEvent
	for _, e := range list {
		out = append(out, event(e))
	}
	return out
}

// knownEvents returns the events known to this build.
func knownEvents(list []*harnessv1.RunEvent) []contract.Event {
	var out []contract.Event
	for _, p := range list {
		if e := fromEvent(p); e != nil {
			out = append(out, e)
		}
	}
	return out
}
