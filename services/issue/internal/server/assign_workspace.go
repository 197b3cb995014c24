package server

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
)

// Workspaces stores the operator of each workspace.
type Workspaces interface {
	Assign(ctx context.Context, workspace, operator string, assignment int64) error
	// OperatorOf returns "" for a workspace without an operator.
	OperatorOf(ctx context.Context, workspace string) (string, error)
}

// AssignWorkspace stores the operator of a workspace.
func (s *Tools) AssignWorkspace(
	ctx context.Context, req *issuev1.AssignWorkspaceRequest,
) (*issuev1.AssignWorkspaceResponse, error) {
	if req.GetWorkspace() == "" {
		return nil, fault.New(fault.BadRequest, "An assignment needs a workspace.")
	}
	err := s.workspaces.Assign(ctx, req.GetWorkspace(), req.GetOperator(), req.GetAssignment())
	return &issuev1.AssignWorkspaceResponse{}, err
}

// Proven refuses calls of the tools for an operator other than that of the caller's workspace: the operator in a call's
// metadata is only a claim, but the workspace in its certificate is proven. It is for deployments with several
// operators. It fails with forbidden, details.reason workspace_of_another.
func Proven(of Workspaces) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if !strings.HasPrefix(info.FullMethod, "/"+issuev1.IssueToolService_ServiceDesc.ServiceName+"/") {
			return next(ctx, req)
		}
		id := rpc.IdentityOf(ctx)
		switch id.Service {
		case "session-manager", mtls.Debug: // the caller table restricts the methods
			return next(ctx, req)
		}
		caller := ident.CallerFrom(ctx).UserID
		serves := ""
		if id.Workspace != "" {
			operator, err := of.OperatorOf(ctx, id.Workspace)
			if err != nil {
				return nil, err
			}
			serves = operator
		}
		if serves == "" || serves != caller {
			return nil, fault.New(fault.Forbidden, "The workspace of the caller does not serve that operator.").
				With("reason", "workspace_of_another")
		}
		return next(ctx, req)
	}
}
