package loop

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// unknownWindow is the context window of a model without a known one, in tokens.
const unknownWindow = 128_000

// The defaults of pruning in tokens.
const (
	protectTokens  = 40_000
	minimumSavings = 20_000
)

// protectedTools keep their results by default.
var protectedTools = []string{"file.read", "project.skill"}

// room is the state of keeping a conversation inside its model's window.
type room struct {
	meter      compact.Meter
	fixed      int64 // plain estimate of the system prompt and the tools
	asked      int64 // plain estimate of the last request
	superseded int   // turns that compactions took out
	retried    bool  // a provider refused a request as too long, and it was made shorter
	full       bool  // the last compaction found no unit to drop
}

// answered notes a provider's count of input tokens for the last request.
func (r *room) answered(counted int64) { r.meter.Counted(r.asked, counted) }

// window is the smallest context window of a route's usable models, less the room for an answer.
type window struct {
	tokens, reserved int64
	upper, lower     float64
}

// exceeded reports whether a request with this estimate is above the upper threshold.
func (w window) exceeded(tokens int64) bool {
	return float64(tokens+w.reserved) > w.upper*float64(w.tokens)
}

// target is the estimate of a request at the lower threshold.
func (w window) target() int64 { return max(0, int64(w.lower*float64(w.tokens))-w.reserved) }

// window returns the window of a route under the agent's thresholds.
func (v *invocation) window(route contract.Route) window {
	w := window{upper: dsl.DefaultUpperThreshold, lower: dsl.DefaultLowerThreshold}
	if c := v.agent.Compaction; c != nil {
		w.upper, w.lower = cmp.Or(c.UpperThreshold, w.upper), cmp.Or(c.LowerThreshold, w.lower)
	}
	answer := v.outputBound(route)
	for _, t := range route.Targets {
		if t.Unusable != nil {
			continue
		}
		known := cmp.Or(v.deps.Prices.Window(t.Target), unknownWindow)
		if w.tokens == 0 || int64(known) < w.tokens {
			w.tokens = int64(known)
		}
		if v.maxOutput == 0 {
			if n := v.deps.Prices.MaxOutput(t.Target); n > 0 && (answer == 0 || n < answer) {
				answer = n
			}
		}
	}
	w.tokens = cmp.Or(w.tokens, unknownWindow)
	w.reserved = min(int64(cmp.Or(answer, boundedOutput)), w.tokens/4)
	return w
}

// source is the place of the step's messages among the stored ones; no place for an agent below the root, as its
// conversation ends with its call.
func (v *invocation) source() contract.Source {
	if v.parent != nil || v.start.MessageID == "" {
		return contract.Source{}
	}
	return contract.Source{MessageID: v.start.MessageID, Step: v.step}
}

// size returns the plain estimate of the next request.
func (v *invocation) size() int64 {
	if v.room.fixed == 0 {
		v.room.fixed = compact.FixedTokens(v.system, v.tools)
	}
	return v.room.fixed + v.talk.Tokens()
}

// makeRoom prunes results of tools and, above the upper threshold, drops the oldest part of the conversation.
func (v *invocation) makeRoom(route contract.Route) error {
	w := v.window(route)
	v.prune()
	v.room.asked = v.size()
	if !w.exceeded(v.room.meter.Tokens(v.room.asked)) {
		v.room.full = false
		return nil
	}
	if v.room.full {
		return nil
	}
	_, err := v.compact(w, contract.ThresholdCrossed, w.target())
	return err
}

// makeRoomAfter shortens the conversation after a provider refused it as too long, once in an invocation. It reports
// whether the next request is shorter.
func (v *invocation) makeRoomAfter(route contract.Route) (bool, error) {
	if v.room.retried {
		return false, nil
	}
	v.room.retried = true
	w := v.window(route)
	// The estimate was wrong, so the target is a share of this request as well.
	refused := v.room.meter.Tokens(v.room.asked)
	return v.compact(w, contract.OverflowRetry, min(w.target(), int64(w.lower*float64(refused))))
}

// prune applies the agent's rules of pruning.
func (v *invocation) prune() {
	rules, protected := compact.Pruning{Protect: protectTokens, Minimum: minimumSavings}, protectedTools
	if c := v.agent.Compaction; c != nil && c.Prune != nil {
		if c.Prune.Disabled {
			return
		}
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
	rules.Protected = func(tool string) bool { return slices.Contains(protected, v.canonicalName(tool)) }
	v.talk.Prune(rules)
}

// compact drops the oldest part of the conversation, down to a corrected estimate of a request, and reports
// whether it dropped any.
func (v *invocation) compact(w window, trigger contract.CompactionTrigger, target int64) (bool, error) {
	began := time.Now()
	c := contract.Compaction{
		ID: "cmp_" + ident.New(), Trigger: trigger, Strategy: contract.StrategyDrop,
		Window: w.tokens, Upper: w.upper, Lower: w.lower,
		Before: v.room.meter.Tokens(v.room.asked) + w.reserved,
	}
	if a := v.agent.Compaction; a != nil {
		c.Strategy = cmp.Or(a.Strategy, c.Strategy)
	}
	if err := v.stage(c, contract.CompactionTriggered, map[string]any{
		"trigger": string(trigger), "threshold_estimate": c.Before, "strategy": c.Strategy,
	}); err != nil {
		return false, err
	}
	if c.Strategy != contract.StrategyDrop {
		c.Fallback, c.Reason = contract.StrategyDrop, "Compaction by "+c.Strategy+" is not in force yet."
		if err := v.stage(c, contract.CompactionFailed, map[string]any{
			"attempted_strategy": c.Strategy, "fallback_strategy": c.Fallback, "reason": c.Reason,
		}); err != nil {
			return false, err
		}
	}
	plain := target
	if corrected := v.room.meter.Tokens(v.room.asked); corrected > 0 {
		plain = int64(float64(target) * float64(v.room.asked) / float64(corrected))
	}
	talk, dropped := v.talk.Drop(plain-v.room.fixed, v.keeps)
	if dropped.Messages == 0 {
		v.room.full = true
		c.Reason = "No message of the conversation may be dropped."
		return false, v.stage(c, contract.CompactionNoop, map[string]any{"reason": c.Reason, "strategy": c.Strategy})
	}
	v.talk = talk
	v.room.superseded += dropped.Turns
	v.room.asked = v.size()
	c.Spans, c.Turns, c.Messages, c.Summary = dropped.Spans, dropped.Turns, dropped.Messages, dropped.Note
	c.After, c.DurationMS = v.room.meter.Tokens(v.room.asked)+w.reserved, time.Since(began).Milliseconds()
	return true, v.stage(c, contract.CompactionCompleted, map[string]any{
		"after_estimate": c.After, "superseded_count": c.Messages, "duration_ms": c.DurationMS, "strategy": c.Strategy,
		"trigger": string(trigger), "fallback_strategy": c.Fallback,
	})
}

// stage sends a stage of a compaction with its record.
func (v *invocation) stage(c contract.Compaction, phase contract.CompactionPhase, payload map[string]any) error {
	c.Phase, c.At = phase, time.Now().UnixMilli()
	payload["compaction_id"], payload["session_id"], payload["run_id"] = c.ID, v.start.SessionID, v.start.RunID
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	c.Audit = contract.NewRecord("compaction."+string(phase), v.agent.Path, payload)
	return v.emit(c)
}

// keeps reports whether a unit stays by the agent's always_keep.
func (v *invocation) keeps(unit []llm.Message) bool {
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
