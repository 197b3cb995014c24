// Package wire has the public form of measures, in which frames and answers show them.
package wire

import (
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
