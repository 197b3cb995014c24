package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// A stream is opened once its peer is connected, within two seconds; after them the peer is unavailable. The caller's
// own cancellation keeps its code.
func TestReach(t *testing.T) {
	for name, c := range map[string]struct {
		connected, cancelled time.Duration
		code                 fault.Code
	}{
		"connected at once":           {connected: 0},
		"connected after a restart":   {connected: 1900 * time.Millisecond},
		"never connected":             {connected: time.Hour, code: fault.Unavailable},
		"cancelled before connecting": {connected: time.Hour, cancelled: time.Second, code: fault.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancelled > 0 {
					defer time.AfterFunc(c.cancelled, cancel).Stop()
				}
				stream, err := rpc.Reach(ctx, func(ctx context.Context, opts ...grpc.CallOption) (context.Context, error) {
					if len(opts) != 1 {
						t.Errorf("got %d options, want the one that waits", len(opts))
					}
					select {
					case <-time.After(c.connected):
						return ctx, nil
					case <-ctx.Done():
						return nil, fault.From(ctx.Err())
					}
				})
				if c.code == 0 {
					time.Sleep(time.Hour)
					if err != nil || stream.Err() != nil {
						t.Errorf("got %v, and the stream ended with %v", err, stream.Err())
					}
					return
				}
				if fault.CodeOf(err) != c.code || stream != nil {
					t.Errorf("got %v, want %s", err, c.code)
				}
			})
		})
	}
}
