package server

import (
	"context"

	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
)

// GetLocalConfig returns the calling operator's configurations.
func (s *Local) GetLocalConfig(
	ctx context.Context, _ *apiv1.GetLocalConfigRequest,
) (*apiv1.GetLocalConfigResponse, error) {
	found, err := s.configs.Mine(ctx)
	if err != nil {
		return nil, err
	}
	return &apiv1.GetLocalConfigResponse{Config: localConfig(found)}, nil
}

// SetLocalConfig replaces the calling operator's own configuration.
func (s *Local) SetLocalConfig(
	ctx context.Context, req *apiv1.SetLocalConfigRequest,
) (*apiv1.SetLocalConfigResponse, error) {
	set, err := s.configs.SetMine(ctx, req.GetDocument())
	if err != nil {
		return nil, err
	}
	return &apiv1.SetLocalConfigResponse{Config: localConfig(set)}, nil
}

// GetOperatorConfig returns the administrators' configuration for an operator.
func (s *Admin) GetOperatorConfig(
	ctx context.Context, req *apiv1.GetOperatorConfigRequest,
) (*apiv1.GetOperatorConfigResponse, error) {
	d, err := s.admin.Config(ctx, req.GetOperatorId())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetOperatorConfigResponse{Config: operatorConfig(req.GetOperatorId(), d)}, nil
}

// SetOperatorConfig replaces the administrators' configuration for an operator.
func (s *Admin) SetOperatorConfig(
	ctx context.Context, req *apiv1.SetOperatorConfigRequest,
) (*apiv1.SetOperatorConfigResponse, error) {
	d, err := s.admin.SetConfig(ctx, req.GetOperatorId(), req.GetDocument())
	if err != nil {
		return nil, err
	}
	return &apiv1.SetOperatorConfigResponse{Config: operatorConfig(req.GetOperatorId(), d)}, nil
}

func operatorConfig(operator string, d operatorconfig.Document) *apiv1.OperatorConfig {
	return &apiv1.OperatorConfig{
		OperatorId: operator, Document: d.Text, Revision: d.Revision, UpdatedAt: optional.NonZero(d.UpdatedAt),
	}
}

func localConfig(d operatorconfig.Documents) *apiv1.LocalConfig {
	return &apiv1.LocalConfig{
		Document: d.Own.Text, Revision: d.Own.Revision, UpdatedAt: optional.NonZero(d.Own.UpdatedAt),
		AdministratorDocument: d.ByAdministrator.Text,
	}
}
