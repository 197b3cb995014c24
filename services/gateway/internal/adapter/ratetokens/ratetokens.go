// Package ratetokens takes tokens of rate limits from session-manager.
package ratetokens

import (
	"context"
	"time"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// Tokens implements rates.Taker.
type Tokens struct {
	Operators sessionmanagerv1.OperatorServiceClient
}

// Take implements rates.Taker.
func (t Tokens) Take(ctx context.Context, limit string, wanted int) (taken int, retry time.Duration, err error) {
	resp, err := t.Operators.TakeTokens(ctx, &sessionmanagerv1.TakeTokensRequest{Limit: limit, Wanted: int32(wanted)})
	return int(resp.GetTaken()), time.Duration(resp.GetRetryAfterMs()) * time.Millisecond, err
}
