// Package holderconn calls the process that holds a session: if session-manager fails with stale_lease and the
// holder's address, the call is repeated there.
package holderconn

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
)

// hops is the maximum number of times that a call is repeated at another holder. A holder may lose the lease before
// the repeated call arrives.
const hops = 2

// Conn is a connection to session-manager that repeats unary calls at the holder. Streams are not repeated, because
// their first answer comes too late for Invoke; see [Conn.Follow].
type Conn struct {
	grpc.ClientConnInterface
	dial func(address string) (grpc.ClientConnInterface, error)
}

// New returns a Conn over base. dial returns a connection to the address of a holder.
func New(base grpc.ClientConnInterface, dial func(address string) (grpc.ClientConnInterface, error)) *Conn {
	return &Conn{ClientConnInterface: base, dial: dial}
}

// Invoke makes a unary call, and repeats it at the holder if needed. It fails with the call's error, and with
// fault.Unavailable if the holder cannot be reached or has changed more than hops times.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.Follow(func(conn grpc.ClientConnInterface) error { return conn.Invoke(ctx, method, args, reply, opts...) })
}

// Follow calls try with the connection to session-manager. If try fails with fault.StaleLease, it calls try with a
// connection to the holder that the error names. It fails like [Conn.Invoke].
func (c *Conn) Follow(try func(grpc.ClientConnInterface) error) error {
	err := try(c.ClientConnInterface)
	for range hops {
		if !errors.Is(err, fault.StaleLease) {
			return err
		}
		holder, _ := fault.From(err).Details["holder"].(string)
		if holder == "" {
			break
		}
		conn, dialErr := c.dial(holder)
		if dialErr != nil {
			return fault.Wrap(dialErr, fault.Unavailable, "The process that holds the session cannot be reached; try again "+
				"shortly.").
				With("subsystem", "session-manager")
		}
		err = try(conn)
	}
	if errors.Is(err, fault.StaleLease) {
		return fault.Wrap(err, fault.Unavailable, "The session is moving between processes; try again shortly.").
			With("subsystem", "session-manager")
	}
	return err
}
