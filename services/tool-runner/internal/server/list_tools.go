package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ListTools returns the catalogue. It was rendered once: it does not change while the service runs.
func (s *Server) ListTools(context.Context, *toolrunnerv1.ListToolsRequest) (*toolrunnerv1.ListToolsResponse, error) {
	return s.listing, nil
}
