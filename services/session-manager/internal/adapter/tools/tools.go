// Package tools tells a workspace's tool-runner that a session has ended.
package tools

import (
	"context"

	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Tools implements [sessions.Tools].
type Tools struct {
	client toolrunnerv1.ToolRunnerServiceClient
}

// New returns a Tools that calls over conn. There is one workspace so far, whatever it is called.
func New(conn grpc.ClientConnInterface) *Tools {
	return &Tools{toolrunnerv1.NewToolRunnerServiceClient(conn)}
}

// EndSession implements [sessions.Tools]. It waits for a tool-runner that is being restarted, as long as ctx lasts.
func (t *Tools) EndSession(ctx context.Context, _, session string) error {
	_, err := t.client.EndSession(ctx, &toolrunnerv1.EndSessionRequest{SessionId: session}, grpc.WaitForReady(true))
	return err
}
