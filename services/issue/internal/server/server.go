// Package server answers kaged.issue.v1.IssueService: the issues of projects, with their updates and todos.
package server

import (
	"context"

	"kaged.dev/pkg/ident"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// Server is the gRPC service. Its handlers convert messages and call core.
type Server struct {
	issuev1.UnimplementedIssueServiceServer
	issues *issues.Service
}

// New returns a Server of the issues.
func New(s *issues.Service) *Server { return &Server{issues: s} }

// project returns a project of the calling operator. An interceptor has refused calls without one.
func project(ctx context.Context, id string) issues.Project {
	return issues.Project{Owner: ident.CallerFrom(ctx).UserID, ID: id}
}

// named is a request about one issue.
type named interface {
	GetProjectId() string
	GetNumber() int64
}

func ref(ctx context.Context, req named) issues.Ref {
	return issues.Ref{Project: project(ctx, req.GetProjectId()), Number: req.GetNumber()}
}
