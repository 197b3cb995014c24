package bus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// SystemSubject is the subject of notices for system sockets. Each is a kaged.sessionmanager.v1.SystemNotice.
const SystemSubject = "system.changed"

// LogSubject is the subject of stored entries of projects' logs. Each is a kaged.sessionmanager.v1.LogNotice.
const LogSubject = "logs.stored"

// Notify sends messages in order to the present listeners of a subject, and returns when the server has received them.
// The server does not store notices: a disconnected listener misses them. After fault.Unavailable some may have been
// sent.
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

// Listen subscribes handle to a subject and returns when the server has registered the subscription. From then on
// handle is called with each notice, one at a time, until the connection is closed. The bytes are valid until handle
// returns. Listen fails with fault.Unavailable.
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
