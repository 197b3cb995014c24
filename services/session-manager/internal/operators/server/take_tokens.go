package server

import (
	"context"
	"time"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// TakeTokens takes tokens of a rate limit of the caller.
func (s *Server) TakeTokens(
	ctx context.Context, req *sessionmanagerv1.TakeTokensRequest,
) (*sessionmanagerv1.TakeTokensResponse, error) {
	taken, retry, err := s.rates.Take(ctx, req.GetLimit(), int(req.GetWanted()))
	if err != nil {
		return nil, err
	}
	resp := &sessionmanagerv1.TakeTokensResponse{Taken: int32(taken)}
	if taken == 0 {
		resp.RetryAfterMs = max(1, int64((retry+time.Millisecond-1)/time.Millisecond))
	}
	return resp, nil
}
