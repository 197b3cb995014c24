package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
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
	return &apiv1.GetOperatorConfigResponse{Config: operatorConfig(d, req.GetOperatorId())}, nil
}

// SetOperatorConfig replaces the administrators' configuration for an operator.
func (s *Admin) SetOperatorConfig(
	ctx context.Context, req *apiv1.SetOperatorConfigRequest,
) (*apiv1.SetOperatorConfigResponse, error) {
	d, err := s.admin.SetConfig(ctx, req.GetOperatorId(), req.GetDocument())
	if err != nil {
		return nil, err
	}
	return &apiv1.SetOperatorConfigResponse{Config: operatorConfig(d, req.GetOperatorId())}, nil
}

//convert:one operatorConfig(operator string) operatorconfig.Document *apiv1.OperatorConfig Text=Document
//convert:with >OperatorId=operator
//convert:one localConfig operatorconfig.Documents *apiv1.LocalConfig Own.Text=Document Own.Revision=Revision
//convert:with Own.UpdatedAt=UpdatedAt ByAdministrator.Text=AdministratorDocument
