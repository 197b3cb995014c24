package server

import (
	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

//convert:import contract "kaged.dev/pkg/contract"
//convert:import record "kaged.dev/services/session-manager/internal/sessions/core/record"
//convert:one ledger []contract.LedgerEntry []*apiv1.LedgerItem >list
//convert:one ledgerItem contract.LedgerEntry *apiv1.LedgerItem Agent=AgentPath >Done=doneOf(in)
//convert:one compactorCost *contract.CompactorUse *apiv1.CompactorCost Input=InputTokens Output=OutputTokens
//convert:with Cost=CostUsd
//convert:one firedPlugins []contract.FiredHook []*apiv1.FiredPlugin >list
//convert:one firedPlugin contract.FiredHook *apiv1.FiredPlugin Result=ResultKind
//convert:one spans []contract.Span []*apiv1.CompactionSpan >list
//convert:one span contract.Span *apiv1.CompactionSpan From=FromStep To=ToStep
//convert:one compactions []record.Compaction []*apiv1.SessionCompaction >list
//convert:one compaction record.Compaction *apiv1.SessionCompaction At=CreatedAt Messages=SupersededCount
//convert:with >ThresholdEstimate=share(in.Before,in.Window) >AfterEstimate=share(in.After,in.Window)
//convert:with >FallbackOccurred=in.Fallback!="" Reason=FallbackReason Flag=OperatorFlag Notes=OperatorNotes
//convert:with Compactor=CompactorCost Window=WindowTokens Upper=WindowUpper Lower=WindowLower Fired=PluginsFired
//convert:with >SummaryMessage=- >SupersededMessages=- >PluginCost=-
//convert:use roles
//convert:one superseded []record.Message []*apiv1.SupersededMessage
//convert:one supersededMessage record.Message *apiv1.SupersededMessage

// doneOf returns whether a todo is done, nil for other entries.
func doneOf(e contract.LedgerEntry) *bool {
	if e.Kind != contract.LedgerTodo {
		return nil
	}
	return &e.Done
}

// share returns tokens as a fraction of a window.
func share(tokens, window int64) float64 {
	if window <= 0 {
		return 0
	}
	return float64(tokens) / float64(window)
}

// summaryMessage returns the text that replaces superseded parts; it may be nil.
func summaryMessage(c contract.Compaction) *apiv1.SummaryMessage {
	if c.Summary == "" {
		return nil
	}
	return &apiv1.SummaryMessage{
		Id: c.SummaryMessageID, Role: "system", Content: c.Summary,
		Metadata: &apiv1.SummaryMetadata{Kind: transcript.KindSummary, CompactorCost: compactorCost(c.Compactor)},
	}
}

// wholeCompaction returns a compaction with its superseded messages.
func wholeCompaction(c record.Compaction, gone []record.Message) *apiv1.SessionCompaction {
	out := compaction(c)
	out.SummaryMessage = summaryMessage(c.Compaction)
	out.SupersededMessages = superseded(gone)
	return out
}

// compactAnswer returns a compaction that has begun, or a proposal.
func compactAnswer(a sessions.CompactAnswer) *apiv1.CompactSessionResponse {
	out := &apiv1.CompactSessionResponse{
		CompactionId: a.ID, SessionId: a.Session, AgentPath: a.Agent, Trigger: string(contract.OperatorManual),
		Strategy: a.Strategy, DryRun: a.Proposed != nil,
	}
	if a.Proposed == nil {
		return out
	}
	c := *a.Proposed
	p := &apiv1.ProposedCompaction{
		Trigger: string(contract.OperatorManual), ThresholdEstimate: share(c.Before, c.Window),
		AfterEstimate: share(c.After, c.Window), SummaryMessage: summaryMessage(c), Spans: spans(c.Spans),
		PluginsFired: firedPlugins(c.Fired),
	}
	if c.Compactor != nil {
		p.CompactorCostUsd = c.Compactor.Cost
	}
	summarized := false
	for _, m := range a.Messages {
		if m.Action == "supersede" {
			p.SupersededMessageIds = append(p.SupersededMessageIds, m.ID)
			if !summarized {
				summarized = true
				p.Messages = append(p.Messages, &apiv1.ProposedMessage{
					Role:   apiv1.MessageRole_MESSAGE_ROLE_SYSTEM,
					Action: "summary",
				})
			}
		}
		p.Messages = append(p.Messages, &apiv1.ProposedMessage{Id: m.ID, Role: roles[m.Role], Action: m.Action})
	}
	out.Proposed = p
	return out
}
