package record

import "kaged.dev/pkg/contract"

// Compaction is a completed compaction of an agent of a run.
type Compaction struct {
	contract.Compaction
	SessionID, RunID string
	// InvocationID is the invocation of the agent, "" for the root agent. Only a compaction of the root agent
	// has spans.
	InvocationID string
}
