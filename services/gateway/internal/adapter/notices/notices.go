// Package notices reads notices of session-manager and of the service issue, and asks for counts.
package notices

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/server/systemsocket"
)

// issuesChanged is the subject of the service issue, kaged.issue.v1.IssueChanged each.
const issuesChanged = "issues.changed"

// Listen calls tell with each notice on conn, until that is closed. It fails with unavailable.
func Listen(
	ctx context.Context, conn *bus.Conn, log *slog.Logger, tell func(owner string, f systemsocket.Frame),
) error {
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
		kind := "issue.updated"
		if n.GetCreated() {
			kind = "issue.created"
		}
		payload, err := wirejson.Marshal(&apiv1.IssueUpdated{ProjectId: n.GetProjectId(), Number: n.GetNumber()})
		if err == nil {
			tell(n.GetOwnerUserId(), systemsocket.Frame{Type: kind, Payload: payload})
		}
	})
}

// Count returns how many sessions of the caller in ctx have a run at work, as a frame.
func Count(conn grpc.ClientConnInterface) func(ctx context.Context) (systemsocket.Frame, error) {
	client := sessionmanagerv1.NewSystemServiceClient(conn)
	return func(ctx context.Context) (systemsocket.Frame, error) {
		resp, err := client.CountRunning(ctx, &apiv1.CountRunningRequest{})
		if err != nil {
			return systemsocket.Frame{}, err
		}
		payload, err := wirejson.Marshal(resp.GetCount())
		return systemsocket.Frame{Type: systemsocket.RunningCount, Payload: payload, Version: resp.GetVersion()}, err
	}
}
