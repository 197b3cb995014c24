package server

import (
	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// ledger returns entries of a ledger as the API shows them.
func ledger(list []contract.LedgerEntry) []*apiv1.LedgerItem {
	out := make([]*apiv1.LedgerItem, len(list))
	for i, e := range list {
		out[i] = &apiv1.LedgerItem{
			Seq: e.Seq, At: e.At, RunId: e.RunID, Step: int32(e.Step), AgentPath: e.Agent, Kind: string(e.Kind), Path: e.Path,
			Sha256: e.SHA256, Command: e.Command, Text: e.Text,
		}
		if e.ExitCode != nil {
			code := int32(*e.ExitCode)
			out[i].ExitCode = &code
		}
		if e.Kind == contract.LedgerTodo {
			out[i].Done = &e.Done
		}
	}
	return out
}

// share returns tokens as a part of a window.
func share(tokens, window int64) float64 {
	if window <= 0 {
		return 0
	}
	return float64(tokens) / float64(window)
}

func compactorCost(u *contract.CompactorUse) *apiv1.CompactorCost {
	if u == nil {
		return nil
	}
	return &apiv1.CompactorCost{
		Provider: u.Provider, Model: u.Model, InputTokens: u.Input, OutputTokens: u.Output, CostUsd: u.Cost,
	}
}

func firedPlugins(list []contract.FiredHook) []*apiv1.FiredPlugin {
	out := make([]*apiv1.FiredPlugin, len(list))
	for i, f := range list {
		out[i] = &apiv1.FiredPlugin{Name: f.Name, Role: f.Role, DurationMs: f.DurationMS, ResultKind: f.Result}
	}
	return out
}

func spans(list []contract.Span) []*apiv1.CompactionSpan {
	out := make([]*apiv1.CompactionSpan, len(list))
	for i, s := range list {
		out[i] = &apiv1.CompactionSpan{MessageId: s.MessageID, FromStep: int32(s.From), ToStep: int32(s.To)}
	}
	return out
}

// summaryMessage returns the text in the place of superseded parts; it may be nil.
func summaryMessage(c contract.Compaction) *apiv1.SummaryMessage {
	if c.Summary == "" {
		return nil
	}
	return &apiv1.SummaryMessage{
		Id: c.SummaryMessageID, Role: "system", Content: c.Summary,
		Metadata: &apiv1.SummaryMetadata{Kind: transcript.KindSummary, CompactorCost: compactorCost(c.Compactor)},
	}
}

func compactions(list []record.Compaction) []*apiv1.SessionCompaction {
	out := make([]*apiv1.SessionCompaction, len(list))
	for i, c := range list {
		out[i] = compaction(c)
	}
	return out
}

func compaction(c record.Compaction) *apiv1.SessionCompaction {
	return &apiv1.SessionCompaction{
		Id: c.ID, SessionId: c.SessionID, RunId: text(c.RunID), AgentPath: c.AgentPath, CreatedAt: c.At,
		Trigger: string(c.Trigger), Strategy: c.Strategy, ThresholdEstimate: share(c.Before, c.Window),
		AfterEstimate: share(c.After, c.Window), SupersededCount: int32(c.Messages),
		SummaryMessageId: text(c.SummaryMessageID), Summary: c.Summary, FallbackOccurred: c.Fallback != "",
		FallbackReason: text(c.Reason), OperatorFlag: c.Flag, OperatorNotes: c.Notes, Spans: spans(c.Spans),
		CompactorCost: compactorCost(c.Compactor), UndoneAt: unlessZero(c.UndoneAt), WindowTokens: c.Window,
		WindowUpper: c.Upper, WindowLower: c.Lower, DurationMs: c.DurationMS, PluginsFired: firedPlugins(c.Fired),
	}
}

// wholeCompaction returns a compaction with its superseded messages.
func wholeCompaction(c record.Compaction, gone []record.Message) *apiv1.SessionCompaction {
	out := compaction(c)
	out.SummaryMessage = summaryMessage(c.Compaction)
	for _, m := range gone {
		out.SupersededMessages = append(out.SupersededMessages, &apiv1.SupersededMessage{
			Id: m.ID, Role: roles[m.Role], Content: m.Content, CreatedAt: m.CreatedAt,
		})
	}
	return out
}

// compactAnswer returns a compaction that begins, or a proposal.
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
