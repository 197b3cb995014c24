package loop

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// The defaults of pruning, in tokens.
const (
	protectTokens  = 40_000
	minimumSavings = 20_000
)

// protectedTools are the tools with results that pruning keeps by default.
var protectedTools = []string{"file.read", "project.skill"}

// room is the state of an invocation's compactions and token estimates.
type room struct {
	meter      compact.Meter
	fixed      int64      // plain estimate of the system prompt and the tools
	asked      int64      // plain estimate of the last request
	superseded int        // turns that compactions superseded
	retried    bool       // a request that a provider refused as too long was shortened
	full       bool       // the last compaction found no unit to drop
	retained   []HookUnit // by observers, in the current compaction
}

// answered corrects the meter by the provider's count of input tokens for the last request.
func (r *room) answered(counted int64) { r.meter.Counted(r.asked, counted) }

// window is the smallest context window of a route's usable models, with the tokens reserved for an answer.
type window struct {
	tokens, reserved int64
	upper, lower     float64
	known            bool // the windows of all usable models are known
}

// exceeded reports whether a request with this estimate is above the upper threshold.
func (w window) exceeded(tokens int64) bool {
	return float64(tokens+w.reserved) > w.upper*float64(w.tokens)
}

// target is the estimate of a request at the lower threshold.
func (w window) target() int64 { return max(0, int64(w.lower*float64(w.tokens))-w.reserved) }

// window returns the window of a route under the agent's thresholds.
func (v *invocation) window(route contract.Route) window {
	w := window{upper: dsl.DefaultUpperThreshold, lower: dsl.DefaultLowerThreshold, known: true}
	if c := v.agent.Compaction; c != nil {
		w.upper, w.lower = cmp.Or(c.UpperThreshold, w.upper), cmp.Or(c.LowerThreshold, w.lower)
	}
	answer := v.outputBound(route)
	for _, t := range route.Targets {
		if t.Unusable != nil {
			continue
		}
		tokens := v.deps.Prices.Window(t.Target)
		w.known = w.known && tokens > 0
		if tokens = cmp.Or(tokens, contract.AssumedWindow); w.tokens == 0 || int64(tokens) < w.tokens {
			w.tokens = int64(tokens)
		}
		if v.maxOutput == 0 {
			if n := v.deps.Prices.MaxOutput(t.Target); n > 0 && (answer == 0 || n < answer) {
				answer = n
			}
		}
	}
	w.known = w.known && w.tokens > 0
	w.tokens = cmp.Or(w.tokens, contract.AssumedWindow)
	w.reserved = min(int64(cmp.Or(answer, boundedOutput)), w.tokens/4)
	return w
}

// source is the stored position of the step's messages. It is empty for a child: its conversation ends with its call.
func (v *invocation) source() contract.Source {
	if v.parent != nil || v.start.MessageID == "" {
		return contract.Source{}
	}
	return contract.Source{MessageID: v.start.MessageID, Step: v.step}
}

// size returns the plain estimate of the next request in tokens.
func (v *invocation) size() int64 {
	if v.room.fixed == 0 {
		v.room.fixed = compact.FixedTokens(v.system, v.tools)
	}
	return v.room.fixed + v.talk.Tokens()
}

// shrinking is an order to compact.
type shrinking struct {
	id       string // of the compaction; empty for a new one
	trigger  contract.CompactionTrigger
	strategy string // empty for the agent's
	target   int64  // corrected estimate of the request after the compaction
	dry      bool
}

// makeRoom prunes tool results and, above the upper threshold, compacts the conversation.
func (v *invocation) makeRoom(ctx context.Context, route contract.Route) error {
	v.recall(route)
	w := v.window(route)
	v.prune()
	v.room.asked = v.size()
	if !w.exceeded(v.room.meter.Tokens(v.room.asked)) {
		v.room.full = false
		return nil
	}
	_, err := v.compact(ctx, w, shrinking{trigger: contract.ThresholdCrossed, target: w.target()})
	return err
}

// makeRoomAfter compacts the conversation after a provider refused it as too long, once in an invocation. It reports
// whether the next request is shorter.
func (v *invocation) makeRoomAfter(ctx context.Context, route contract.Route) (bool, error) {
	if v.room.retried {
		return false, nil
	}
	v.room.retried, v.room.full = true, false
	w := v.window(route)
	// The estimate was wrong, so the target is also at most a share of the refused request.
	refused := v.room.meter.Tokens(v.room.asked)
	return v.compact(ctx, w, shrinking{
		trigger: contract.OverflowRetry, target: min(w.target(), int64(w.lower*float64(refused))),
	})
}

// prune applies the agent's pruning rules.
func (v *invocation) prune() { v.pruneOf(v.talk) }

func (v *invocation) pruneOf(talk *compact.Conversation) {
	rules, protected, off := v.pruning()
	if off {
		return
	}
	rules.Protected = func(tool string) bool { return slices.Contains(protected, v.canonicalName(tool)) }
	talk.Prune(rules)
}

// pruning returns the agent's pruning rules, and whether pruning is off.
func (v *invocation) pruning() (rules compact.Pruning, protected []string, off bool) {
	rules, protected = compact.Pruning{Protect: protectTokens, Minimum: minimumSavings}, protectedTools
	if c := v.agent.Compaction; c != nil && c.Prune != nil {
		off = c.Prune.Disabled
		if n := c.Prune.ProtectTokens; n != nil {
			rules.Protect = *n
		}
		if n := c.Prune.MinimumSavings; n != nil {
			rules.Minimum = *n
		}
		if c.Prune.ProtectedTools != nil {
			protected = c.Prune.ProtectedTools
		}
	}
	return rules, protected, off
}

// compact supersedes the oldest units of the conversation until the corrected estimate of the request is at o.target.
// It reports whether it superseded any.
func (v *invocation) compact(ctx context.Context, w window, o shrinking) (bool, error) {
	began := time.Now()
	c := contract.Compaction{
		ID: cmp.Or(o.id, "cmp_"+ident.New()), Trigger: o.trigger, Strategy: contract.StrategyDrop,
		Window: w.tokens, Upper: w.upper, Lower: w.lower,
		Before: v.room.meter.Tokens(v.room.asked) + w.reserved,
	}
	if a := v.agent.Compaction; a != nil {
		c.Strategy = cmp.Or(a.Strategy, c.Strategy)
	}
	c.Strategy = cmp.Or(o.strategy, c.Strategy)
	limit, ledger := v.plain(o.target), v.ledger()
	plan := v.talk.Plan(limit, v.extra(c.Strategy), v.keeps, ledger)
	if plan.Empty() && v.room.full {
		return false, nil // reported already, and still without a unit to drop
	}
	if err := v.stage(c, contract.CompactionTriggered, map[string]any{
		"trigger": string(o.trigger), "threshold_estimate": c.Before, "strategy": c.Strategy,
	}); err != nil {
		return false, err
	}
	if retained, inject := v.observed(ctx, &c, o.dry); len(retained) > 0 || inject != "" {
		defer v.retain(retained)()
		ledger = strings.TrimLeft(ledger+inject, "\n")
		plan = v.talk.Plan(limit, v.extra(c.Strategy), v.keeps, ledger)
	}
	if plan.Empty() {
		return false, v.useless(c, o)
	}
	talk, gone, err := v.shortened(ctx, &c, plan, o.dry, limit)
	if err != nil {
		return false, err
	}
	if gone.Messages == 0 {
		return false, v.useless(c, o)
	}
	v.compacted(ctx, o.dry, plan)
	v.talk, v.room.full = talk, false
	v.room.superseded += gone.Turns
	v.room.asked = v.size()
	c.Spans, c.Turns, c.Messages, c.Summary = gone.Spans, gone.Turns, gone.Messages, gone.Note
	c.After, c.DurationMS = v.room.meter.Tokens(v.room.asked)+w.reserved, time.Since(began).Milliseconds()
	payload := map[string]any{
		"after_estimate": c.After, "superseded_count": c.Messages, "duration_ms": c.DurationMS, "strategy": c.Strategy,
		"trigger": string(o.trigger), "fallback_strategy": c.Fallback,
	}
	if len(c.Fired) > 0 {
		names := make([]any, len(c.Fired))
		for i, f := range c.Fired {
			names[i] = f.Name
		}
		payload["plugins_fired"] = names
	}
	if c.Compactor != nil {
		payload["compactor_model"] = c.Compactor.Provider + ":" + c.Compactor.Model
	}
	return true, v.stage(c, contract.CompactionCompleted, payload)
}

// shortened returns the conversation without the units of a plan. A strategy that fails is noted in c, and drop is
// used in its place.
func (v *invocation) shortened(
	ctx context.Context, c *contract.Compaction, plan *compact.Plan, dry bool, limit int64,
) (*compact.Conversation, compact.Dropped, error) {
	strategy := c.Strategy
	// An agent with the strategy drop and a summarizer prefers a summary, and drops without a report if that fails.
	silent := strategy == contract.StrategyDrop && v.agent.Compaction != nil && v.agent.Compaction.SummarizeModel != ""
	if silent {
		strategy = contract.StrategySummarize
	}
	var note string
	var failure error
	if strategy == contract.StrategyDelegate {
		var chosen *compact.Plan
		if chosen, note, failure = v.delegated(ctx, c, dry, plan); failure == nil {
			plan = chosen
		}
	} else {
		note, c.Compactor, failure = v.summary(ctx, strategy, plan, dry)
	}
	if ctx.Err() != nil {
		return nil, compact.Dropped{}, ctx.Err()
	}
	if failure == nil && strategy == contract.StrategyDrop {
		talk, gone := v.drop(limit, plan)
		return talk, gone, nil
	}
	if failure == nil {
		text := note
		if dry && c.Compactor != nil {
			text = plan.Summarized("") // the summary may be shorter than its placeholder
		}
		if talk, gone, shorter := v.applied(plan, text); shorter {
			gone.Note = note
			return talk, gone, nil
		}
		failure = fault.New(fault.ProviderBadResponse, "The summary is longer than what it summarizes.")
	}
	if !silent {
		c.Fallback, c.Reason = contract.StrategyDrop, fault.From(failure).Msg
		if err := v.stage(*c, contract.CompactionFailed, map[string]any{
			"attempted_strategy": c.Strategy, "fallback_strategy": c.Fallback, "reason": c.Reason,
		}); err != nil {
			return nil, compact.Dropped{}, err
		}
	}
	talk, gone := v.drop(limit, plan)
	return talk, gone, nil
}

// applied returns the conversation with the units of a plan replaced by a note. Pruning starts anew on the remaining
// units and may keep results that it had pruned before. shorter reports whether the request becomes shorter; if not, it
// must stay as it is.
func (v *invocation) applied(plan *compact.Plan, note string) (
	talk *compact.Conversation, gone compact.Dropped, shorter bool,
) {
	talk, gone = plan.Apply(note)
	if gone.Messages > 0 {
		v.pruneOf(talk)
	}
	gone.Tokens = talk.Tokens()
	return talk, gone, gone.Tokens < v.talk.Tokens()
}

// drop returns the conversation without its oldest units. It removes more units than planned if the note or results
// that are no longer pruned take the room. It returns the same conversation if a shorter conversation is not found.
func (v *invocation) drop(limit int64, plan *compact.Plan) (*compact.Conversation, compact.Dropped) {
	const tries = 3
	for target, try := limit, 1; ; try++ {
		talk, gone, shorter := v.applied(plan, plan.Note())
		over := gone.Tokens - limit
		switch {
		case over > 0 && try < tries:
		case shorter:
			return talk, gone
		default:
			return v.talk, compact.Dropped{Tokens: v.talk.Tokens()}
		}
		target -= over
		plan = v.talk.Plan(target, 0, v.keeps, plan.Ledger())
	}
}

// useless reports a compaction that found no unit to drop. [invocation.compact] reports it once until a unit can be
// dropped.
func (v *invocation) useless(c contract.Compaction, o shrinking) error {
	v.room.full = true
	c.Reason, c.After = "No message of the conversation may be dropped.", c.Before
	return v.stage(c, contract.CompactionNoop, map[string]any{"reason": c.Reason, "strategy": c.Strategy})
}

// extra returns the tokens that a strategy needs for its text.
func (v *invocation) extra(strategy string) int64 {
	a := v.agent.Compaction
	switch {
	case a == nil || a.SummarizeModel == "":
	case strategy == contract.StrategySummarize, strategy == contract.StrategyDrop,
		strategy == contract.StrategyDelegate && a.DelegatePlugin == dsl.Summarizer:
		return summaryTokens
	}
	return 0
}

// plain converts a corrected estimate of a request to the plain estimate of its messages.
func (v *invocation) plain(target int64) int64 {
	plain := target
	if corrected := v.room.meter.Tokens(v.room.asked); corrected > 0 {
		plain = int64(float64(target) * float64(v.room.asked) / float64(corrected))
	}
	return plain - v.room.fixed
}

// stage emits a stage of a compaction with its record.
func (v *invocation) stage(c contract.Compaction, phase contract.CompactionPhase, payload map[string]any) error {
	c.Phase, c.At = phase, time.Now().UnixMilli()
	payload["compaction_id"], payload["session_id"], payload["run_id"] = c.ID, v.start.SessionID, v.start.RunID
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	c.Audit = contract.NewRecord("compaction."+string(phase), v.agent.Path, payload)
	return v.emit(c)
}

// retain keeps units from compaction until the returned function is called.
func (v *invocation) retain(units []HookUnit) (end func()) {
	v.room.retained = units
	return func() { v.room.retained = nil }
}

// keeps reports whether compaction must keep a unit: for the operator's mark, an observer, or the agent's
// always_keep.
func (v *invocation) keeps(unit []llm.Message, of []contract.Source) bool {
	if slices.ContainsFunc(of, func(s contract.Source) bool { return v.keptIDs[s.MessageID] }) {
		return true
	}
	for _, kept := range v.room.retained {
		if len(kept.Messages) > 0 && &kept.Messages[0] == &unit[0] {
			return true
		}
	}
	if v.agent.Compaction == nil {
		return false
	}
	return slices.ContainsFunc(v.agent.Compaction.AlwaysKeep, func(entry string) bool {
		kind, value, _ := strings.Cut(entry, ":")
		return slices.ContainsFunc(unit, func(m llm.Message) bool { return v.matches(m, kind, value) })
	})
}

func (v *invocation) matches(m llm.Message, kind, value string) bool {
	switch kind {
	case "role":
		return string(m.Role) == value
	case "tool":
		return slices.ContainsFunc(callsOf(m.Blocks), func(c llm.ToolCall) bool {
			found, err := path.Match(value, v.canonicalName(c.Name))
			return err == nil && found
		})
	case "text":
		return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool {
			return b.Text != nil && strings.Contains(b.Text.Text, value) ||
				b.Result != nil && strings.Contains(b.Result.Content, value)
		})
	}
	return false
}
