package admin

import (
	"context"

	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
)

// Config returns the administrators' configuration for an operator. The operator's own is not shown.
func (s *Service) Config(ctx context.Context, id string) (operatorconfig.Document, error) {
	if _, err := s.allow(ctx); err != nil {
		return operatorconfig.Document{}, err
	}
	if _, err := s.operator(ctx, id); err != nil {
		return operatorconfig.Document{}, err
	}
	found, err := s.Configs.Store.Documents(ctx, id)
	if err != nil {
		return operatorconfig.Document{}, err
	}
	return found.ByAdministrator, s.noteRead(ctx, "config", []string{id})
}

// SetConfig replaces the administrators' configuration for an operator.
func (s *Service) SetConfig(ctx context.Context, id, text string) (operatorconfig.Document, error) {
	if _, err := s.allow(ctx); err != nil {
		return operatorconfig.Document{}, err
	}
	if _, err := s.operator(ctx, id); err != nil {
		return operatorconfig.Document{}, err
	}
	record := about(ctx, id, operatorconfig.Event, map[string]any{"set_by": "administrator"})
	set, err := s.Configs.Set(ctx, id, localconfig.Layer{Document: text, Administrator: true}, record)
	return set.ByAdministrator, err
}
