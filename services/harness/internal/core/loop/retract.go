package loop

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// turnRetracted is the record of an answer that broke off and was retracted.
const turnRetracted = "agent.turn_retracted"

// brokenOff is the use of the retracted answers of a turn. Their provider charges for them.
type brokenOff struct {
	usage llm.Usage
	stats *llm.Stats // may be nil
}

// addTo adds their cost to the turn's cost. The total is nil if any part is unpriced.
func (b *brokenOff) addTo(stats *llm.Stats) {
	switch {
	case b.stats == nil:
	case b.stats.Cost == nil:
		stats.Cost = nil
	case stats.Cost != nil:
		sum := stats.Cost.Add(*b.stats.Cost)
		stats.Cost = &sum
	}
}

// retract retracts an answer that broke off. None of its tools has run: tools wait for the complete turn.
func (a *attempts) retract(ans answer, f *fault.Error) error {
	a.retracted = true
	return a.run.takeBack(ans, f)
}

// takeBack retracts an answer. Its use is added to the turn's use.
func (v *invocation) takeBack(ans answer, f *fault.Error) error {
	stats := v.measure(ans)
	sum := stats
	v.broken.addTo(&sum)
	v.broken, v.kept = brokenOff{usage: v.broken.usage.Add(*ans.used), stats: &sum}, nil
	payload := map[string]any{
		"run_id": v.start.RunID, "session_id": v.start.SessionID, "step": v.step, "error_code": f.Code.String(),
		"provider": ans.target.Provider, "model": ans.target.Model, "estimated": true, "cost_usd": nil,
		"tokens_in": ans.used.TotalInput(), "tokens_out": ans.used.Output,
	}
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	if stats.Cost != nil {
		payload["cost_usd"] = stats.Cost.Total
	}
	return v.emit(contract.Retracted{
		Step: v.step, Reason: f.Msg, Audit: contract.NewRecord(turnRetracted, v.agent.Path, payload),
	})
}
