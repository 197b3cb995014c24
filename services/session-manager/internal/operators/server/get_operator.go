package server

import (
	"context"

	"kaged.dev/pkg/ident"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetOperator returns the part of the calling operator's configuration that the console shows.
func (s *Server) GetOperator(
	ctx context.Context, _ *sessionmanagerv1.GetOperatorRequest,
) (*sessionmanagerv1.GetOperatorResponse, error) {
	p := s.operator.Preferences(ctx, ident.CallerFrom(ctx).UserID)
	return &sessionmanagerv1.GetOperatorResponse{
		OperatorName: p.OperatorName, Theme: p.Theme, Timezone: p.Timezone, Locale: p.Locale,
	}, nil
}
