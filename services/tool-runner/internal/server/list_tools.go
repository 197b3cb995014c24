package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"

	"kaged.dev/pkg/contract/toolwire"
)

// ListTools returns the catalogue, which does not change while the service runs, and the tools that a caller can use.
func (s *Server) ListTools(
	_ context.Context,
	req *toolrunnerv1.ListToolsRequest,
) (*toolrunnerv1.ListToolsResponse, error) {
	listing, err := s.listing()
	if err != nil || req.GetContext() == nil {
		return &toolrunnerv1.ListToolsResponse{Tools: listing}, err
	}
	reasons, err := s.runner.Available(toolwire.FromCaller(req.GetContext()))
	if err != nil {
		return nil, err
	}
	resp := &toolrunnerv1.ListToolsResponse{Tools: make([]*toolrunnerv1.Tool, len(listing))}
	for i, t := range listing {
		resp.Tools[i] = proto.CloneOf(t)
		resp.Tools[i].Availability = availabilityToProto(reasons[i])
	}
	return resp, nil
}
