package framejson

import (
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// compaction returns the frame of a stage of a compaction, nil for an unknown one.
func compaction(p frames.Told, c contract.Compaction) proto.Message {
	agent := name(c.Audit.Agent)
	switch c.Phase {
	case contract.CompactionTriggered:
		return &apiv1.CompactionTriggered{
			SessionId: p.SessionID, CompactionId: c.ID, AgentPath: agent, Trigger: name(string(c.Trigger)),
			Strategy: name(c.Strategy), ThresholdEstimate: c.Before, RunId: p.RunID, InvocationId: p.InvocationID,
		}
	case contract.CompactionCompleted:
		return &apiv1.CompactionCompleted{
			SessionId: p.SessionID, CompactionId: c.ID, AgentPath: agent, SupersededCount: int32(c.Messages),
			SummaryMessageId: optional.NonZero(c.SummaryMessageID),
			AfterEstimate:    c.After, DurationMs: c.DurationMS, RunId: p.RunID, InvocationId: p.InvocationID,
		}
	case contract.CompactionFailed:
		return &apiv1.CompactionFailed{
			SessionId: p.SessionID, CompactionId: c.ID, AgentPath: agent, AttemptedStrategy: name(c.Strategy),
			FallbackStrategy: name(c.Fallback), Reason: cut(c.Reason, targetShare), RunId: p.RunID,
			InvocationId: p.InvocationID,
		}
	case contract.CompactionNoop:
		return &apiv1.CompactionNoop{
			SessionId: p.SessionID, CompactionId: c.ID, AgentPath: agent, Strategy: name(c.Strategy),
			Reason: cut(c.Reason, targetShare), RunId: p.RunID, InvocationId: p.InvocationID,
		}
	}
	return nil
}
