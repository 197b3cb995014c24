// Package holderconn reaches the process that holds a session: session-manager answers stale_lease with the
// holder's address, and the call is made again there.
package holderconn

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
)

// hops is how often a call is sent on: a holder may have lost the lease while the caller was on its way.
const hops = 2

// Conn is a connection to session-manager that follows unary calls to the holder. Streams do not: their first
// answer comes too late; see [Conn.Follow].
type Conn struct {
	grpc.ClientConnInterface
	dial func(address string) (grpc.ClientConnInterface, error)
}

// New returns a Conn over base. dial returns a connection to an address a holder has told.
func New(base grpc.ClientConnInterface, dial func(address string) (grpc.ClientConnInterface, error)) *Conn {
	return &Conn{ClientConnInterface: base, dial: dial}
}

// Invoke makes a unary call, at the holder if need be. It fails with the call's error, and with fault.Unavailable
// if the session moves faster than it can be followed.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.Follow(func(conn grpc.ClientConnInterface) error { return conn.Invoke(ctx, method, args, reply, opts...) })
}

// Follow runs try against session-manager, and as long as it fails with fault.StaleLease against the holder the error
// names. It fails like [Conn.Invoke].
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
