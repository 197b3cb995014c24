package lsppool

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/retry"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// retryHold is the retry interval of a broken hold.
const retryHold = time.Second

// Hold holds the language servers until ctx ends, so that they end with this process, however it ends. It holds them
// again after a restart of the pool.
func (c *Client) Hold(ctx context.Context) {
	for range (retry.Pauses{First: retryHold, Last: retryHold}).Each(ctx) {
		stream, err := c.client.HoldServers(ctx, &lsppoolv1.HoldServersRequest{}, grpc.WaitForReady(true))
		for err == nil {
			_, err = stream.Recv()
		}
	}
}
