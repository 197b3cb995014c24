package dappool

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/tool-runner/internal/core/debugging"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Watch implements debugging.Debuggers.
func (c *Client) Watch(
	ctx context.Context, session, run string, tell func(e contract.DebugEvent, root string) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Watch(ctx, &dappoolv1.WatchRequest{SessionId: session, RunId: run})
	for err == nil {
		var event *dappoolv1.WatchEvent
		if event, err = stream.Recv(); err == nil {
			err = tell(contract.DebugEventFromProto(event.GetEvent()), event.GetRoot())
		}
	}
	return err
}

// View implements debugging.Debuggers.
func (c *Client) View(ctx context.Context, l debugging.Look) (debugging.Seen, string, error) {
	res, err := c.client.View(ctx, &dappoolv1.ViewRequest{
		SessionId: l.Session, DebugSessionId: l.ID, FrameId: int32(l.Frame), OutputFrom: l.Output,
	})
	if err != nil {
		return debugging.Seen{}, "", err
	}
	return debugging.Seen{
		Sessions: contract.DebugSessionsFromProto(res.GetSessions()), View: contract.DebugViewFromProto(res.GetView()),
	}, res.GetRoot(), nil
}

// Control implements debugging.Debuggers.
func (c *Client) Control(ctx context.Context, m debugging.Move) (debugging.Moved, error) {
	res, err := c.client.Control(ctx, &dappoolv1.ControlRequest{
		SessionId: m.Session, DebugSessionId: m.ID, OperatorId: m.Operator, Action: actions[m.Action],
		TimeoutMs: m.Timeout.Milliseconds(), ThreadId: int64(m.Thread), Expression: m.Expression, FrameId: int32(m.Frame),
	})
	if err != nil {
		return debugging.Moved{}, err
	}
	return moved(res), nil
}
