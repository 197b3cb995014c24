package server

import (
	"context"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/contract"
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

func adminOperator(o admin.Operator) *apiv1.AdminOperator {
	out := &apiv1.AdminOperator{
		OperatorId: o.ID, Workspace: unlessEmpty(o.Workspace), Sessions: int32(o.Sessions), Running: int32(o.Running),
		LastActiveAt: unlessZero(o.LastActiveAt), CostUsd: float64(o.NanoUSD) / contract.NanoUSD, Tokens: o.Tokens,
		Calls: o.Calls, DisabledAt: unlessZero(o.DisabledAt),
	}
	if l := o.Limits; l != nil {
		out.Limits = &apiv1.OperatorLimits{
			SessionsPerProject: set(l.SessionsPerProject), SessionsPerOperator: set(l.SessionsPerOperator),
			MaxSteps: set(l.MaxSteps), LiveAgents: set(l.LiveAgents), RequestsPerMinute: set(l.RequestsPerMinute),
			MessagesPerMinute: set(l.MessagesPerMinute),
		}
	}
	if b := o.Budget; b != nil {
		out.Budget = &apiv1.OperatorBudget{Usd: b.USD, Tokens: b.Tokens, Calls: b.Calls, Per: b.Per}
	}
	return out
}

func operatorLimits(l *apiv1.OperatorLimits) localconfig.Limits {
	return localconfig.Limits{
		SessionsPerProject: int(l.GetSessionsPerProject()), SessionsPerOperator: int(l.GetSessionsPerOperator()),
		MaxSteps: int(l.GetMaxSteps()), LiveAgents: int(l.GetLiveAgents()), RequestsPerMinute: int(l.GetRequestsPerMinute()),
		MessagesPerMinute: int(l.GetMessagesPerMinute()),
	}
}

func operatorBudget(b *apiv1.OperatorBudget) config.Budget {
	return config.Budget{USD: b.GetUsd(), Tokens: b.GetTokens(), Calls: b.GetCalls(), Per: b.GetPer()}
}

func adminWorkspace(w admin.Workspace) *apiv1.AdminWorkspace {
	return &apiv1.AdminWorkspace{
		Name: w.Name, OperatorId: unlessEmpty(w.Operator), State: string(w.State), AssignedAt: unlessZero(w.AssignedAt),
		Running: int32(w.Running),
	}
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// set returns a limit, nil for one that is not set.
func set(n int) *int32 {
	if n == 0 {
		return nil
	}
	limit := int32(n)
	return &limit
}
