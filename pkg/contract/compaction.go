package contract

import (
	"kaged.dev/pkg/frametype"
)

// Source is the place of a message of a conversation among the stored ones.
type Source struct {
	// MessageID is the stored message.
	MessageID string
	// Step is the step of its run, from 1; 0 for all of the message.
	Step int
}

// Span is a part of a stored message that a compaction superseded: its steps From to To, inclusively; 0 and 0
// for all of it.
type Span struct {
	MessageID string
	From, To  int
}

// Covers reports whether the span includes a step of its message; step 0 asks for all of it.
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

// Compaction is a stage of a compaction of one agent's conversation. All numbers of tokens are estimates of a
// request with the reserved room for its answer.
type Compaction struct {
	Phase CompactionPhase
	// ID is unique everywhere, and the same in all stages.
	ID      string
	Trigger CompactionTrigger
	// Strategy is the configured one, or in [CompactionFailed] the attempted one.
	Strategy string
	// Before is the estimate at the beginning, After at the end.
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
	// Fallback is the strategy used in place of a failed one, Reason the cause; of [CompactionNoop] Reason
	// alone is set.
	Fallback, Reason string
	DurationMS       int64
	At               int64
	// Audit is the record of the stage; it names the agent.
	Audit Record
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
