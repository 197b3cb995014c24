package wire

import (
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// SessionStates are the states of a session in messages.
var SessionStates = map[record.State]apiv1.SessionState{
	record.Idle: apiv1.SessionState_SESSION_STATE_IDLE, record.Queued: apiv1.SessionState_SESSION_STATE_QUEUED,
	record.Running: apiv1.SessionState_SESSION_STATE_RUNNING, record.Paused: apiv1.SessionState_SESSION_STATE_PAUSED,
	record.Failed: apiv1.SessionState_SESSION_STATE_FAILED, record.Ended: apiv1.SessionState_SESSION_STATE_ENDED,
}
