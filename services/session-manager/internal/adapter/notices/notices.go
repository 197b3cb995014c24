// Package notices publishes notices for consoles and log entries on NATS.
package notices

import (
	"context"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/notices"
)

// Notifier sends messages on a subject to its present subscribers.
type Notifier interface {
	Notify(ctx context.Context, subject string, messages ...[]byte) error
}

// Send returns the Send function of a [notices.Sender]. It drops notices that cannot be encoded.
func Send(to Notifier) func(context.Context, []notices.Notice) error {
	return func(ctx context.Context, list []notices.Notice) error {
		messages := make([][]byte, 0, len(list))
		for _, n := range list {
			kind, payload, version := Frame(n.What)
			text, err := wirejson.Marshal(payload)
			if err != nil {
				continue
			}
			data, err := proto.Marshal(&sessionmanagerv1.SystemNotice{
				OwnerUserId: n.Owner, Type: kind, Payload: text, Version: version,
			})
			if err == nil {
				messages = append(messages, data)
			}
		}
		return to.Notify(ctx, bus.SystemSubject, messages...)
	}
}

// Frame returns the frame type and the payload of a notice, and the version of a count.
func Frame(what any) (kind string, payload proto.Message, version int64) {
	switch w := what.(type) {
	case notices.Session:
		return frametype.SessionChanged.Name, sessionChanged(w.Session), 0
	case notices.Project:
		p := &apiv1.ProjectChanged{ProjectId: w.ID}
		if state, known := states[w.State]; known {
			p.State = &state
		}
		return frametype.ProjectChanged.Name, p, 0
	case notices.Removed:
		return frametype.ProjectChanged.Name, &apiv1.ProjectChanged{ProjectId: w.ID, Removed: true}, 0
	case notices.Waiting:
		return frametype.ApprovalWaiting.Name, waiting(w), 0
	case notices.Over:
		return frametype.ApprovalOver.Name, over(w), 0
	case notices.Count:
		return frametype.RunningCount.Name, CountProto(w), w.Version
	}
	return frametype.SystemMissed.Name, &apiv1.SystemMissed{}, 0
}

var states = map[string]apiv1.ProjectState{
	"ready": apiv1.ProjectState_PROJECT_STATE_READY, "pending": apiv1.ProjectState_PROJECT_STATE_PENDING,
	"invalid": apiv1.ProjectState_PROJECT_STATE_INVALID,
}

//convert:import record "kaged.dev/services/session-manager/internal/sessions/core/record"
//convert:import notices "kaged.dev/services/session-manager/internal/sessions/core/notices"
//convert:import optional "kaged.dev/pkg/optional"
//convert:import wire "kaged.dev/services/session-manager/internal/wire"
//convert:use wire.SessionStates
//convert:one sessionChanged record.Session *apiv1.SessionChanged ID=SessionId Label=Name CurrentRun=RunId
//convert:with >BlockedReason=optional.NonZero(in.Blocked())
//convert:one waiting notices.Waiting *apiv1.ApprovalWaiting Subject.Tool=Tool Subject.Agent=AgentPath
//convert:one over notices.Over *apiv1.ApprovalOver

//convert:one runningLimits notices.Count *apiv1.RunningLimits PerProjectLimit=PerProject PerOperatorLimit=PerOperator
//convert:one CountProto notices.Count *apiv1.RunningCount >Total=int32(in.Total()) >Limits=runningLimits(in)
//convert:with >PerOperator=map[string]int32{in.Owner:int32(in.Total())}
