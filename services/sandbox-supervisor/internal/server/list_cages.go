package server

import (
	"context"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// ListCages says what cages there are.
func (s *Server) ListCages(_ context.Context, req *sandboxsupervisorv1.ListCagesRequest) (*sandboxsupervisorv1.ListCagesResponse, error) {
	res := &sandboxsupervisorv1.ListCagesResponse{}
	for _, c := range s.supervisor.ListCages(req.GetSessionId()) {
		res.Cages = append(res.Cages, cageToProto(c))
	}
	return res, nil
}
