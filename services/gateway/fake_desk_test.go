package gateway_test

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

func (m *manager) ListAliases(
	ctx context.Context, r *apiv1.ListAliasesRequest,
) (*apiv1.ListAliasesResponse, error) {
	return reply[*apiv1.ListAliasesResponse](ctx, m, r)
}

func (m *manager) ListProviders(
	ctx context.Context, r *apiv1.ListProvidersRequest,
) (*apiv1.ListProvidersResponse, error) {
	return reply[*apiv1.ListProvidersResponse](ctx, m, r)
}

func (m *manager) GetDoctor(
	ctx context.Context, r *apiv1.GetDoctorRequest,
) (*apiv1.GetDoctorResponse, error) {
	return reply[*apiv1.GetDoctorResponse](ctx, m, r)
}

func (m *manager) ListProjectAgents(
	ctx context.Context, r *apiv1.ListProjectAgentsRequest,
) (*apiv1.ListProjectAgentsResponse, error) {
	return reply[*apiv1.ListProjectAgentsResponse](ctx, m, r)
}

func (m *manager) ListProjectFiles(
	ctx context.Context, r *apiv1.ListProjectFilesRequest,
) (*apiv1.ListProjectFilesResponse, error) {
	return reply[*apiv1.ListProjectFilesResponse](ctx, m, r)
}

func (m *manager) GetProjectFile(
	ctx context.Context, r *apiv1.GetProjectFileRequest,
) (*apiv1.GetProjectFileResponse, error) {
	return reply[*apiv1.GetProjectFileResponse](ctx, m, r)
}

func (m *manager) ListSessionChanges(
	ctx context.Context, r *apiv1.ListSessionChangesRequest,
) (*apiv1.ListSessionChangesResponse, error) {
	return reply[*apiv1.ListSessionChangesResponse](ctx, m, r)
}

func (m *manager) ListProjectLogs(
	ctx context.Context, r *apiv1.ListProjectLogsRequest,
) (*apiv1.ListProjectLogsResponse, error) {
	return reply[*apiv1.ListProjectLogsResponse](ctx, m, r)
}

func (m *manager) ResumeSession(
	ctx context.Context, r *apiv1.ResumeSessionRequest,
) (*apiv1.ResumeSessionResponse, error) {
	return reply[*apiv1.ResumeSessionResponse](ctx, m, r)
}

func (m *manager) DiscardQueued(
	ctx context.Context, r *apiv1.DiscardQueuedRequest,
) (*apiv1.DiscardQueuedResponse, error) {
	return reply[*apiv1.DiscardQueuedResponse](ctx, m, r)
}

func (m *manager) GetProjectStatus(
	ctx context.Context, r *apiv1.GetProjectStatusRequest,
) (*apiv1.GetProjectStatusResponse, error) {
	return reply[*apiv1.GetProjectStatusResponse](ctx, m, r)
}
