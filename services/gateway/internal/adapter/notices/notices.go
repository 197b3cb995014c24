// Package notices receives notices of session-manager and of the service issue, and queries the number of running
// sessions.
package notices

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/logtail"
	"kaged.dev/services/gateway/internal/server/systemsocket"
)

// issuesChanged is the subject of notices of the service issue. Each is a kaged.issue.v1.IssueChanged.
const issuesChanged = "issues.changed"

// Listen calls tell with each notice on conn and passes new log entries to tails, until conn is closed. It fails
// with unavailable.
func Listen(
	ctx context.Context, conn *bus.Conn, log *slog.Logger, tell func(owner string, f systemsocket.Frame),
	tails *logtail.Hub,
) error {
	if err := conn.Listen(ctx, bus.LogSubject, func(data []byte) { logged(data, log, tails) }); err != nil {
		return err
	}
	err := conn.Listen(ctx, bus.SystemSubject, func(data []byte) {
		var n sessionmanagerv1.SystemNotice
		if err := proto.Unmarshal(data, &n); err != nil {
			log.Warn("a notice cannot be read", "error", err)
			return
		}
		tell(n.GetOwnerUserId(), systemsocket.Frame{Type: n.GetType(), Payload: n.GetPayload(), Version: n.GetVersion()})
	})
	if err != nil {
		return err
	}
	return conn.Listen(ctx, issuesChanged, func(data []byte) {
		var n issuev1.IssueChanged
		if err := proto.Unmarshal(data, &n); err != nil {
			log.Warn("a notice of an issue cannot be read", "error", err)
			return
		}
		kind := frametype.IssueUpdated
		if n.GetCreated() {
			kind = frametype.IssueCreated
		}
		payload, err := wirejson.Marshal(&apiv1.IssueUpdated{ProjectId: n.GetProjectId(), Number: n.GetNumber()})
		if err == nil {
			tell(n.GetOwnerUserId(), systemsocket.Frame{Type: kind.Name, Payload: payload})
		}
	})
}

// logged passes the log entries of a notice on. After an unreadable or empty notice all readers have missed
// entries.
func logged(data []byte, log *slog.Logger, tails *logtail.Hub) {
	var n sessionmanagerv1.LogNotice
	if err := proto.Unmarshal(data, &n); err != nil {
		log.Warn("a notice of log entries cannot be read", "error", err)
	}
	if len(n.GetEntries()) == 0 {
		tails.Missed()
		return
	}
	project := n.GetEntries()[0].GetProjectId()
	if !tails.Wanted(n.GetOwnerUserId(), project) {
		return
	}
	var list []logtail.Entry
	for _, entry := range n.GetEntries() {
		e := logtail.Entry{Source: entry.GetSource()}
		text, err := wirejson.Marshal(entry)
		if err == nil && e.Level.UnmarshalText([]byte(entry.GetLevel())) == nil {
			e.JSON = text
			list = append(list, e)
		}
	}
	tails.Tell(n.GetOwnerUserId(), project, list)
}

// Count returns a function that returns the number of the caller's sessions with a run in progress, as a frame.
func Count(conn grpc.ClientConnInterface) func(ctx context.Context) (systemsocket.Frame, error) {
	client := sessionmanagerv1.NewSystemServiceClient(conn)
	return func(ctx context.Context) (systemsocket.Frame, error) {
		resp, err := client.CountRunning(ctx, &apiv1.CountRunningRequest{})
		if err != nil {
			return systemsocket.Frame{}, err
		}
		payload, err := wirejson.Marshal(resp.GetCount())
		return systemsocket.Frame{Type: frametype.RunningCount.Name, Payload: payload, Version: resp.GetVersion()}, err
	}
}
