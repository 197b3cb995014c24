package bus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// SystemSubject is the subject of notices for system sockets, kaged.sessionmanager.v1.SystemNotice each.
const SystemSubject = "system.changed"

// LogSubject is the subject of stored entries of projects' logs, kaged.sessionmanager.v1.LogNotice each.
const LogSubject = "logs.stored"

// Notify sends messages on a subject to its listeners of now, in order, and returns when the server has them. No notice
// is kept: a listener that is away misses it. It fails with fault.Unavailable, and then some may have been sent.
func (c *Conn) Notify(ctx context.Context, subject string, messages ...[]byte) error {
	for _, m := range messages {
		if err := c.nc.Publish(subject, m); err != nil {
			return classify(ctx, err, "NATS cannot be reached.")
		}
	}
	guarded, cancel := c.guard(ctx)
	defer cancel()
	return classify(ctx, c.nc.FlushWithContext(guarded), "NATS cannot be reached.")
}

// Listen calls handle with each notice on a subject, one at a time, until the connection is closed. The messages are
// valid until handle returns. When Listen returns, the server knows of the listener. It fails with fault.Unavailable.
func (c *Conn) Listen(ctx context.Context, subject string, handle func([]byte)) error {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) { handle(m.Data) })
	if err == nil {
		guarded, cancel := c.guard(ctx)
		defer cancel()
		err = c.nc.FlushWithContext(guarded)
	}
	if err != nil && sub != nil {
		_ = sub.Unsubscribe()
	}
	return classify(ctx, err, "NATS cannot be reached.")
}
