//go:build unix

package stdio

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// connectTimeout is the time limit for a connection to the loopback.
const connectTimeout = 5 * time.Second

// Connect connects to a port of this host's loopback, for commands without a cage. It fails as core.Spawner does.
func Connect(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(bounded, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil && ctx.Err() != nil {
		return nil, fault.From(ctx.Err())
	}
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, core.BadPort(port, err.Error())
	}
	return conn, nil
}
