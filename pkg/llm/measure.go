package llm

import (
	"math"
	"time"
)

// Stats measures a model's work. Times are in milliseconds with three decimals.
type Stats struct {
	// TTFT is the time from the request to the first text or thinking, absent without either.
	TTFT *float64 `json:"ttft"`
	// Duration is the streaming time, without tools.
	Duration float64 `json:"duration"`
	// TPS is the number of output tokens per second of Duration.
	TPS float64 `json:"tps"`
	// Cost is nil if the model's prices are unknown.
	Cost *Cost `json:"cost"`
}

// Cost is in US dollars by kind of token. Output excludes reasoning.
type Cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	Reasoning  float64 `json:"reasoning"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	Total      float64 `json:"total"`
}

// Add returns the sum.
func (c Cost) Add(d Cost) Cost {
	return Cost{
		c.Input + d.Input, c.Output + d.Output, c.Reasoning + d.Reasoning,
		c.CacheRead + d.CacheRead, c.CacheWrite + d.CacheWrite, c.Total + d.Total,
	}
}

// Milliseconds converts d to the unit of [Stats].
func Milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
