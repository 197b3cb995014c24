package record

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Compaction is a completed compaction of an agent.
type Compaction struct {
	contract.Compaction
	// RunID is "" for a manual one.
	SessionID, RunID string
	// InvocationID is the invocation of the agent, "" for the root agent. Only a compaction of the root agent
	// has spans.
	InvocationID string
	// AgentPath is the agent's tree path, which the store sets from Audit.Agent.
	AgentPath string
	// Flag and Notes are the operator's judgement; they may be nil.
	Flag, Notes *string
	// UndoneAt is 0 while the compaction applies.
	UndoneAt int64
}

// CompactionFlag is the operator's judgement of a compaction: the new values of both fields, which may be nil.
type CompactionFlag struct {
	ID          string
	Flag, Notes *string
}

// MessageMark says whether compactions must keep a message.
type MessageMark struct {
	ID         string
	AlwaysKeep bool
}

// CompactionNotFound is the error for a compaction that its session does not have.
func CompactionNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no compaction %q in this session.", id)
}
