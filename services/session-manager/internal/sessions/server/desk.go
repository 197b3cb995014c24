package server

import (
	"context"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	deskadapter "kaged.dev/services/session-manager/internal/adapter/desk"
	"kaged.dev/services/session-manager/internal/sessions/core/desk"
)

// Desk is the gRPC service DeskService. Handlers translate and delegate.
type Desk struct {
	sessionmanagerv1.UnimplementedDeskServiceServer
	desk *desk.Desk
}

// NewDesk returns a Desk.
func NewDesk(d *desk.Desk) *Desk { return &Desk{desk: d} }

// CountRunning counts the caller's sessions with a run at work.
func (s *Desk) CountRunning(ctx context.Context, _ *apiv1.CountRunningRequest) (*apiv1.CountRunningResponse, error) {
	c, err := s.desk.Count(ctx, ident.CallerFrom(ctx).UserID)
	if err != nil {
		return nil, err
	}
	return &apiv1.CountRunningResponse{Count: deskadapter.CountProto(c), Version: c.Version}, nil
}
