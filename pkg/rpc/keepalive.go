package rpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Keepalive finds vanished peers: a call that holds a resource, such as an attached socket's, must not hold it for the
// hours that TCP takes to notice.
type Keepalive struct {
	// Interval is how long a connection may be silent before the other end is asked whether it is there.
	Interval time.Duration
	// Timeout is how long the answer may take before the connection, and every call on it, is given up as unavailable.
	Timeout time.Duration
	// Age is how long a server uses a connection for new calls, 0 for any time. Calls under way end on it; the client
	// connects again, with the certificates and addresses of that time.
	Age time.Duration
}

// DefaultKeepalive is for connections between services.
var DefaultKeepalive = Keepalive{Interval: 20 * time.Second, Timeout: 10 * time.Second}

// DefaultAge is the Age of connections between hosts.
const DefaultAge = 5 * time.Minute

// MinKeepalive is the shortest Interval of clients. Servers hang up on clients that ask more often than half of it.
const MinKeepalive = 10 * time.Second

// Server returns the options of a server that asks its clients.
func (k Keepalive) Server() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: k.Interval, Timeout: k.Timeout, MaxConnectionAge: k.Age,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: MinKeepalive / 2}),
	}
}

// Client returns the options of a client that asks its server while calls are under way.
func (k Keepalive) Client() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: k.Interval, Timeout: k.Timeout})}
}
