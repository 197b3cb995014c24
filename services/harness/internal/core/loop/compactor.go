package loop

import (
	"context"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// maxSummaryParts is the most requests for one summary.
const maxSummaryParts = 16

// summarizer is the built-in compactor [dsl.Summarizer]. It summarizes the oldest units part by part, so the model of
// the summaries may have a smaller window than the agent's model. Each part follows the summary of the parts before.
type summarizer struct {
	// room is the number of tokens of a part, with the summary of the parts before.
	room int64
	// ask returns a summary of a text in fewer than below tokens.
	ask func(ctx context.Context, text string, below int64) (string, error)
}

// Name implements [Hook].
func (*summarizer) Name() string { return dsl.Summarizer }

// PreCompact implements [Hook].
func (s *summarizer) PreCompact(ctx context.Context, call HookCall) (*HookAnswer, error) {
	parts, err := s.parts(call)
	if err != nil {
		return nil, err
	}
	summary := call.Before
	for _, part := range parts {
		messages := part
		if summary != "" {
			messages = append([]llm.Message{textMessage(llm.RoleSystem, summary)}, part...)
		}
		text := transcriptOf(messages)
		if summary, err = s.ask(ctx, text, compact.Tokens(text)); err != nil {
			return nil, err
		}
	}
	return &HookAnswer{Superseded: call.Suggested, Summary: summary}, nil
}

// PostCompact implements [Hook].
func (*summarizer) PostCompact(context.Context, HookCall) error { return nil }

// parts divides the suggested units. A unit is never divided, so each call is summarized with its result.
func (s *summarizer) parts(call HookCall) (parts [][]llm.Message, err error) {
	room := s.room - summaryTokens // for the summary of the parts before
	filled := room + 1
	for _, at := range call.Suggested {
		messages := call.Units[at].Messages
		size := compact.Tokens(transcriptOf(messages))
		if size > room {
			return nil, fault.New(fault.ContextOverflow,
				"One step has about %d tokens, and the summarizer has room for %d.", size, max(0, room))
		}
		if filled+size > room {
			parts, filled = append(parts, nil), 0
		}
		last := len(parts) - 1
		parts[last], filled = append(parts[last], messages...), filled+size
	}
	if len(parts) > maxSummaryParts {
		return nil, fault.New(fault.ContextOverflow, "The summarizer would need %d requests; at most %d are made.",
			len(parts), maxSummaryParts)
	}
	return parts, nil
}

// textMessage returns a message with one text.
func textMessage(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
}

// compactor returns the agent's compactor, and a function that returns the compactor's use of models, or nil.
func (v *invocation) compactor(dry bool) (Hook, func() *contract.CompactorUse, error) {
	name := ""
	if v.agent.Compaction != nil {
		name = v.agent.Compaction.DelegatePlugin
	}
	if name == dsl.Summarizer {
		return v.builtIn(dry)
	}
	for _, h := range v.deps.Hooks {
		if name != "" && h.Name() == name {
			return h, func() *contract.CompactorUse { return nil }, nil
		}
	}
	return nil, nil, fault.New(fault.InvalidParams, "The plugin %q does not exist or cannot compact.", name)
}

// builtIn returns the built-in compactor with the agent's model for summaries.
func (v *invocation) builtIn(dry bool) (Hook, func() *contract.CompactorUse, error) {
	m, err := v.summaryModel()
	if err != nil {
		return nil, nil, err
	}
	empty := v.summarizer(m.alias, "")
	var total *contract.CompactorUse
	s := &summarizer{
		room: empty.window(m.route).tokens - summaryTokens - empty.size(),
		ask: func(ctx context.Context, text string, below int64) (string, error) {
			summary, use, err := v.summaryOf(ctx, m, text, below, dry)
			total = sumOf(total, use)
			return summary, err
		},
	}
	return s, func() *contract.CompactorUse { return total }, nil
}

// sumOf returns the sum of two uses, without a cost if either lacks a cost.
func sumOf(a, b *contract.CompactorUse) *contract.CompactorUse {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *b
	sum.Input, sum.Output = a.Input+b.Input, a.Output+b.Output
	sum.Cost = nil
	if a.Cost != nil && b.Cost != nil {
		cost := *a.Cost + *b.Cost
		sum.Cost = &cost
	}
	return &sum
}

// delegated asks the agent's compactor for a plan and its text. The error is the reason for the fallback to drop.
func (v *invocation) delegated(
	ctx context.Context, c *contract.Compaction, dry bool, plan *compact.Plan,
) (*compact.Plan, string, error) {
	h, used, err := v.compactor(dry)
	if err != nil {
		return nil, "", err
	}
	call := v.hookCall(RoleCompactor, dry, v.talk.Candidates(v.keeps))
	call.Suggested, call.Before = plan.Places(), plan.Before()
	answer, fired, err := v.askHook(ctx, h, call)
	c.Fired, c.Compactor = append(c.Fired, fired), used()
	if answer == nil {
		reason := "."
		if f := fault.From(err); f != nil && h.Name() == dsl.Summarizer {
			reason = ": " + f.Msg
		}
		return nil, "", fault.New(fault.ProviderBadResponse, "The compactor %s gave no result%s", h.Name(), reason)
	}
	chosen, ok := v.talk.PlanOf(answer.Superseded, v.keeps, plan.Ledger())
	switch {
	case !ok:
		return nil, "", fault.New(fault.ProviderBadResponse,
			"The compactor %s named units that may not be superseded.", h.Name())
	case chosen.Empty() || strings.TrimSpace(answer.Summary) == "":
		return nil, "", fault.New(fault.ProviderBadResponse, "The compactor %s named no units, or returned no summary.",
			h.Name())
	}
	return chosen, chosen.Summarized(valid(answer.Summary)), nil
}
