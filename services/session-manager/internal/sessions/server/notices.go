package server

import (
	"context"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	noticesadapter "kaged.dev/services/session-manager/internal/adapter/notices"
	"kaged.dev/services/session-manager/internal/sessions/core/notices"
)

// NoticesServer is the gRPC service SystemService. Handlers translate and delegate.
type NoticesServer struct {
	sessionmanagerv1.UnimplementedSystemServiceServer
	notices *notices.Sender
}

// NewNotices returns a NoticesServer.
func NewNotices(sender *notices.Sender) *NoticesServer { return &NoticesServer{notices: sender} }

// CountRunning returns the number of the caller's sessions with an active run.
func (s *NoticesServer) CountRunning(
	ctx context.Context, _ *apiv1.CountRunningRequest,
) (*apiv1.CountRunningResponse, error) {
	c, err := s.notices.Count(ctx, ident.CallerFrom(ctx).UserID)
	if err != nil {
		return nil, err
	}
	return &apiv1.CountRunningResponse{Count: noticesadapter.CountProto(c), Version: c.Version}, nil
}
