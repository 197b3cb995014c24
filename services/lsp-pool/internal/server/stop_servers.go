package server

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/core"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

var stopReasons = map[lsppoolv1.StopReason]string{
	lsppoolv1.StopReason_STOP_REASON_UNSPECIFIED:     core.Reload,
	lsppoolv1.StopReason_STOP_REASON_PROJECT_UNLOAD:  core.Unload,
	lsppoolv1.StopReason_STOP_REASON_DAEMON_SHUTDOWN: core.Shutdown,
}

// StopServers stops servers and returns when they have ended.
func (s *Server) StopServers(
	ctx context.Context, req *lsppoolv1.StopServersRequest,
) (*lsppoolv1.StopServersResponse, error) {
	which, err := filterFromProto(req.GetProjectId(), req.GetRoot(), req.GetLang(), req.GetView())
	if err != nil {
		return nil, err
	}
	if stopReasons[req.GetReason()] == "" {
		return nil, fault.New(fault.BadRequest, "The reason %d is unknown.", req.GetReason())
	}
	list, records := s.pool.Stop(ctx, which, stopReasons[req.GetReason()])
	return &lsppoolv1.StopServersResponse{
		Servers: contract.LanguageServersProto(list), Records: contract.RecordsProto(records),
	}, nil
}
