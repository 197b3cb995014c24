package contract

import (
	"kaged.dev/pkg/frametype"
)

// Source is the position of a conversation's message in the stored messages.
type Source struct {
	// MessageID is the stored message.
	MessageID string
	// Step is the step of its run, from 1; 0 means the whole message.
	Step int
}

// Span is a part of a stored message that a compaction superseded: its steps From to To, both included; 0 and 0 mean
// the whole message.
type Span struct {
	MessageID string
	From, To  int
}

// Covers reports whether the span includes a step of its message; step 0 means the whole message.
func (s Span) Covers(step int) bool {
	return s.To == 0 || step > 0 && s.From <= step && step <= s.To
}

// CompactionPhase is a stage of a compaction.
type CompactionPhase string

// The phases.
const (
	CompactionTriggered CompactionPhase = "triggered"
	CompactionCompleted CompactionPhase = "completed"
	CompactionFailed    CompactionPhase = "failed"
	CompactionNoop      CompactionPhase = "noop"
)

// CompactionTrigger is the cause of a compaction.
type CompactionTrigger string

// The triggers.
const (
	ThresholdCrossed CompactionTrigger = "threshold_crossed"
	OverflowRetry    CompactionTrigger = "provider_overflow_retry"
	OperatorManual   CompactionTrigger = "operator_manual"
)

// The strategies of compactions.
const (
	StrategyDrop       = "drop"
	StrategySummarize  = "summarize"
	StrategyDelegate   = "delegate"
	StrategyCheckpoint = "checkpoint"
)

// Compaction is a stage of a compaction of one agent's conversation. All token counts are estimates of a request
// together with the reserved room for its answer.
type Compaction struct {
	Phase CompactionPhase
	// ID is globally unique, and the same in all stages.
	ID      string
	Trigger CompactionTrigger
	// Strategy is the configured one, or in [CompactionFailed] the attempted one.
	Strategy string
	// Before is the estimate at the start, After the estimate at the end.
	Before, After int64
	// Window is the model's window; Upper and Lower are the agent's thresholds as fractions of it.
	Window       int64
	Upper, Lower float64
	// Spans are the superseded parts of stored messages, in the order of the conversation. Turns is their
	// number of turns of the model and Messages their number of messages, results included.
	Spans           []Span
	Turns, Messages int
	// Summary is the text in the place of the superseded part.
	Summary string
	// Fallback is the strategy used instead of a failed one, and Reason the cause. [CompactionNoop] has only Reason.
	Fallback, Reason string
	DurationMS       int64
	At               int64
	// Audit is the record of the stage; it names the agent.
	Audit Record
	// Compactor is the use of a summarizer, or nil.
	Compactor *CompactorUse
	// Fired are the participating hooks.
	Fired []FiredHook
	// SummaryMessageID is the stored message with the summary, set in session-manager only.
	SummaryMessageID string
}

// FiredHook is the part of a hook in a compaction.
type FiredHook struct {
	Name string `json:"name"`
	// Role is observer or compactor.
	Role       string `json:"role"`
	DurationMS int64  `json:"duration_ms"`
	// Result is inject, retain, compactor_result, null or error.
	Result string `json:"result_kind"`
}

// CompactorUse is the use of a summarizer.
type CompactorUse struct {
	Provider, Model string
	// Input and Output are tokens, cached ones included.
	Input, Output int64
	// Cost is in US dollars, nil for an unknown price.
	Cost *float64
}

// CompactOrder is a request to compact the conversation of an agent between runs.
type CompactOrder struct {
	// ID is the id of the compaction, "" for an estimate only.
	ID string
	// Agent is its tree path, "" for the root agent. A child agent has no conversation between runs.
	Agent string
	// Strategy is "" for the agent's own strategy.
	Strategy string
	// Dry calls no model.
	Dry bool
}

// Compacted is the outcome of an order.
type Compacted struct {
	// Estimate is the estimate of the conversation before the compaction.
	Estimate ContextEstimate
	// Stages are the stages of the compaction; the last stage of a dry run is its proposal.
	Stages []Compaction
	// Pruned are the messages with pruned results.
	Pruned []string
	// Calls are the model calls: [CallWanted], [CallSettled] and [Record], in order.
	Calls []Event
}

// AssumedWindow is the context window, in tokens, that is assumed for a model without a known one.
const AssumedWindow = 128_000

// ContextEstimate is the estimated use of a model's window, in tokens.
type ContextEstimate struct {
	// Input is the estimate of the next request, Reserved the room for its answer.
	Input, Reserved int64
	// Window is 0 if it is unknown.
	Window int64
	// Calibrated is true if counts of the provider have corrected the estimate. Error is the mean relative error so far,
	// nil if it is unknown.
	Calibrated bool
	Error      *float64
}

// Records implements [Told].
func (c Compaction) Records() []Record { return []Record{c.Audit} }

// FrameType implements [Told].
func (c Compaction) FrameType() frametype.Type {
	switch c.Phase {
	case CompactionTriggered:
		return frametype.CompactionTriggered
	case CompactionCompleted:
		return frametype.CompactionCompleted
	case CompactionFailed:
		return frametype.CompactionFailed
	case CompactionNoop:
		return frametype.CompactionNoop
	}
	return frametype.Type{}
}

func (Compaction) event() {}
