package lsppool

import (
	"context"
	"time"

	"google.golang.org/grpc"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// retryHold is the retry interval of a broken hold.
const retryHold = time.Second

// Hold holds the language servers until ctx ends, so that they end with this process, however it ends. It holds them
// again after a restart of the pool.
func (c *Client) Hold(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := c.client.HoldServers(ctx, &lsppoolv1.HoldServersRequest{}, grpc.WaitForReady(true))
		for err == nil {
			_, err = stream.Recv()
		}
		select {
		case <-time.After(retryHold):
		case <-ctx.Done():
		}
	}
}
