package gateway_test

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

func (m *manager) UpdateProject(
	ctx context.Context,
	r *apiv1.UpdateProjectRequest,
) (*apiv1.UpdateProjectResponse, error) {
	return reply[*apiv1.UpdateProjectResponse](ctx, m, r)
}

func (m *manager) GetUnresolved(
	ctx context.Context,
	r *apiv1.GetUnresolvedRequest,
) (*apiv1.GetUnresolvedResponse, error) {
	return reply[*apiv1.GetUnresolvedResponse](ctx, m, r)
}

func (m *manager) GetDsl(ctx context.Context, r *apiv1.GetDslRequest) (*apiv1.GetDslResponse, error) {
	return reply[*apiv1.GetDslResponse](ctx, m, r)
}

func (m *manager) PutDsl(ctx context.Context, r *apiv1.PutDslRequest) (*apiv1.PutDslResponse, error) {
	return reply[*apiv1.PutDslResponse](ctx, m, r)
}

func (m *manager) ValidateDsl(ctx context.Context, r *apiv1.ValidateDslRequest) (*apiv1.ValidateDslResponse, error) {
	return reply[*apiv1.ValidateDslResponse](ctx, m, r)
}

func (m *manager) GetSynthesizedDsl(
	ctx context.Context,
	r *apiv1.GetSynthesizedDslRequest,
) (*apiv1.GetSynthesizedDslResponse, error) {
	return reply[*apiv1.GetSynthesizedDslResponse](ctx, m, r)
}

func (m *manager) ListPrompts(ctx context.Context, r *apiv1.ListPromptsRequest) (*apiv1.ListPromptsResponse, error) {
	return reply[*apiv1.ListPromptsResponse](ctx, m, r)
}

func (m *manager) GetPrompt(ctx context.Context, r *apiv1.GetPromptRequest) (*apiv1.GetPromptResponse, error) {
	return reply[*apiv1.GetPromptResponse](ctx, m, r)
}

func (m *manager) PutPrompt(ctx context.Context, r *apiv1.PutPromptRequest) (*apiv1.PutPromptResponse, error) {
	return reply[*apiv1.PutPromptResponse](ctx, m, r)
}
