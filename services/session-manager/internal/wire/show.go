// Package wire has the public form of measures, in which frames and answers show them.
package wire

import (
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// FrameUsage returns token counts as the API shows them, nil for nil.
func FrameUsage(u *llm.Usage) *apiv1.FrameUsage {
	if u == nil {
		return nil
	}
	return &apiv1.FrameUsage{
		Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
	}
}

// FrameStats returns measurements as the API shows them, nil for nil.
func FrameStats(s *llm.Stats) *apiv1.FrameStats {
	if s == nil {
		return nil
	}
	return &apiv1.FrameStats{Ttft: s.TTFT, Duration: s.Duration, Tps: s.TPS, Cost: cost(s.Cost)}
}

func cost(c *llm.Cost) *apiv1.Cost {
	if c == nil {
		return nil
	}
	return &apiv1.Cost{
		Input: c.Input, Output: c.Output, Reasoning: c.Reasoning,
		CacheRead: c.CacheRead, CacheWrite: c.CacheWrite, Total: c.Total,
	}
}

// BudgetLimit returns a limit as clients are shown it: without what is not bounded.
func BudgetLimit(a contract.Amount, walltime time.Duration) *apiv1.BudgetLimit {
	out := &apiv1.BudgetLimit{}
	if a.NanoUSD > 0 {
		out.Usd = proto.Float64(a.USD())
	}
	if a.Tokens > 0 {
		out.Tokens = &a.Tokens
	}
	if a.Calls > 0 {
		out.Calls = &a.Calls
	}
	if walltime > 0 {
		out.WalltimeMs = proto.Int64(walltime.Milliseconds())
	}
	return out
}

// BudgetUse returns a use of models as clients are shown it.
func BudgetUse(a contract.Amount) *apiv1.BudgetUse {
	return &apiv1.BudgetUse{Usd: a.USD(), Tokens: a.Tokens, Calls: a.Calls}
}

// BudgetSpent is [BudgetUse] of a budget, with the time of work if that has a limit.
func BudgetSpent(a contract.Amount, walltime, worked time.Duration) *apiv1.BudgetUse {
	out := BudgetUse(a)
	if walltime > 0 {
		out.WalltimeMs = proto.Int64(worked.Milliseconds())
	}
	return out
}
