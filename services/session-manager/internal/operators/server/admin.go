package server

import (
	"context"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/admin"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
)

// Admin is the gRPC service AdminService. Handlers translate and delegate.
type Admin struct {
	sessionmanagerv1.UnimplementedAdminServiceServer
	admin *admin.Service
	// entry is an entry of the record as clients see it.
	entry func(audit.Record) *apiv1.AuditEntry
}

// NewAdmin returns an Admin.
func NewAdmin(service *admin.Service, entry func(audit.Record) *apiv1.AuditEntry) *Admin {
	return &Admin{admin: service, entry: entry}
}

// ListOperators lists the operators of the deployment.
func (s *Admin) ListOperators(
	ctx context.Context, req *apiv1.ListOperatorsRequest,
) (*apiv1.ListOperatorsResponse, error) {
	p, err := s.admin.Operators(ctx, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListOperatorsResponse{
		Items: page.Map(p, adminOperator).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}

// SetOperatorLimits replaces the limits and the budget of an operator.
func (s *Admin) SetOperatorLimits(
	ctx context.Context, req *apiv1.SetOperatorLimitsRequest,
) (*apiv1.SetOperatorLimitsResponse, error) {
	var limits *localconfig.Limits
	if l := req.GetLimits(); l != nil {
		read := operatorLimits(l)
		limits = &read
	}
	var budget *config.Budget
	if b := req.GetBudget(); b != nil {
		read := operatorBudget(b)
		budget = &read
	}
	o, err := s.admin.SetLimits(ctx, req.GetOperatorId(), limits, budget)
	if err != nil {
		return nil, err
	}
	return &apiv1.SetOperatorLimitsResponse{Operator: adminOperator(o)}, nil
}

// DisableOperator refuses an operator's requests.
func (s *Admin) DisableOperator(
	ctx context.Context, req *apiv1.DisableOperatorRequest,
) (*apiv1.DisableOperatorResponse, error) {
	o, err := s.admin.Disable(ctx, req.GetOperatorId(), false)
	if err != nil {
		return nil, err
	}
	return &apiv1.DisableOperatorResponse{Operator: adminOperator(o)}, nil
}

// EnableOperator takes an operator's requests again.
func (s *Admin) EnableOperator(
	ctx context.Context, req *apiv1.EnableOperatorRequest,
) (*apiv1.EnableOperatorResponse, error) {
	o, err := s.admin.Disable(ctx, req.GetOperatorId(), true)
	if err != nil {
		return nil, err
	}
	return &apiv1.EnableOperatorResponse{Operator: adminOperator(o)}, nil
}

// ListWorkspaces lists the workspaces of the deployment.
func (s *Admin) ListWorkspaces(
	ctx context.Context, _ *apiv1.ListWorkspacesRequest,
) (*apiv1.ListWorkspacesResponse, error) {
	list, err := s.admin.Workspaces(ctx)
	resp := &apiv1.ListWorkspacesResponse{}
	for _, w := range list {
		resp.Items = append(resp.Items, adminWorkspace(w))
	}
	return resp, err
}

// DrainWorkspace starts no further run in a workspace.
func (s *Admin) DrainWorkspace(
	ctx context.Context, req *apiv1.DrainWorkspaceRequest,
) (*apiv1.DrainWorkspaceResponse, error) {
	w, err := s.admin.SetState(ctx, req.GetName(), workspaces.Draining)
	if err != nil {
		return nil, err
	}
	return &apiv1.DrainWorkspaceResponse{Workspace: adminWorkspace(w)}, nil
}

// ActivateWorkspace lets runs start in a workspace again.
func (s *Admin) ActivateWorkspace(
	ctx context.Context, req *apiv1.ActivateWorkspaceRequest,
) (*apiv1.ActivateWorkspaceResponse, error) {
	w, err := s.admin.SetState(ctx, req.GetName(), workspaces.Active)
	if err != nil {
		return nil, err
	}
	return &apiv1.ActivateWorkspaceResponse{Workspace: adminWorkspace(w)}, nil
}

// ReleaseWorkspace takes a workspace from its operator.
func (s *Admin) ReleaseWorkspace(
	ctx context.Context, req *apiv1.ReleaseWorkspaceRequest,
) (*apiv1.ReleaseWorkspaceResponse, error) {
	w, err := s.admin.Release(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &apiv1.ReleaseWorkspaceResponse{Workspace: adminWorkspace(w)}, nil
}

// ListAdminAudit lists the record of all operators.
func (s *Admin) ListAdminAudit(
	ctx context.Context, req *apiv1.ListAdminAuditRequest,
) (*apiv1.ListAdminAuditResponse, error) {
	p, err := s.admin.Records(ctx, req.GetOperatorId(), audit.Filter{
		Since: req.GetSince(), Until: req.GetUntil(), EventType: req.GetEventType(),
	}, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.ListAdminAuditResponse{
		Items: page.Map(p, s.entry).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}

//convert:import admin "kaged.dev/services/session-manager/internal/operators/core/admin"
//convert:import localconfig "kaged.dev/services/session-manager/internal/operators/core/localconfig"
//convert:import config "kaged.dev/pkg/config"
//convert:import contract "kaged.dev/pkg/contract"
//convert:one adminOperator admin.Operator *apiv1.AdminOperator ID=OperatorId
//convert:with >CostUsd=float64(in.NanoUSD)/contract.NanoUSD
//convert:one limitsToProto *localconfig.Limits *apiv1.OperatorLimits
//convert:one operatorLimits *apiv1.OperatorLimits localconfig.Limits
//convert:one budgetToProto *config.Budget *apiv1.OperatorBudget
//convert:one operatorBudget *apiv1.OperatorBudget config.Budget >Unpriced=-
//convert:one adminWorkspace admin.Workspace *apiv1.AdminWorkspace Operator=OperatorId
