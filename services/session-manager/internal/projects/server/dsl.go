package server

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// DSL answers kaged.sessionmanager.v1.DslService.
type DSL struct {
	sessionmanagerv1.UnimplementedDslServiceServer
	projects *projects.Service
}

// NewDSL returns the service of the projects' files.
func NewDSL(registry *projects.Service) *DSL { return &DSL{projects: registry} }

// ifMatch is the metadata key under which the gateway passes the header If-Match.
const ifMatch = "if-match"

// matched returns the SHA-256 in If-Match, "" without the header and for *.
func matched(ctx context.Context) string {
	for _, header := range metadata.ValueFromIncomingContext(ctx, ifMatch) {
		if header != "*" {
			return strings.ToLower(strings.Trim(strings.TrimPrefix(header, "W/"), `"`))
		}
	}
	return ""
}
