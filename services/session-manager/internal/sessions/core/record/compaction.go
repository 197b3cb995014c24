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
	// AgentPath is the agent's tree path; before it is stored, that of the audit record.
	AgentPath string
	// Flag and Notes are those of the operator; they may be nil.
	Flag, Notes *string
	// UndoneAt is 0 for a valid one.
	UndoneAt int64
}

// CompactionFlag is the operator's judgement of a compaction: both as they are to be; they may be nil.
type CompactionFlag struct {
	ID          string
	Flag, Notes *string
}

// MessageMark says whether no compaction may supersede a message.
type MessageMark struct {
	ID         string
	AlwaysKeep bool
}

// CompactionNotFound is the answer for a compaction that its session does not have.
func CompactionNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no compaction %q in this session.", id)
}
