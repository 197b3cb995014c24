package rpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Keepalive detects vanished peers. A call that holds a resource, such as an attached socket's, must not hold it for
// the hours that TCP needs to detect the loss.
type Keepalive struct {
	// Interval is the silence on a connection before a ping.
	Interval time.Duration
	// Timeout is the time to answer the ping. After it the connection is closed, and every call on it fails with
	// unavailable.
	Timeout time.Duration
	// Age is the time for which a server accepts new calls on a connection, 0 for no limit. Running calls complete on it;
	// the client reconnects with the current certificates and addresses.
	Age time.Duration
}

// DefaultKeepalive is for connections between services.
var DefaultKeepalive = Keepalive{Interval: 20 * time.Second, Timeout: 10 * time.Second}

// DefaultAge is the Age of connections between hosts.
const DefaultAge = 5 * time.Minute

// MinKeepalive is the minimum Interval of clients. Servers close connections of clients that ping more often than every
// half of it.
const MinKeepalive = 10 * time.Second

// Server returns the options of a server that pings its clients.
func (k Keepalive) Server() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: k.Interval, Timeout: k.Timeout, MaxConnectionAge: k.Age,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: MinKeepalive / 2}),
	}
}

// Client returns the options of a client that pings its server during calls.
func (k Keepalive) Client() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: k.Interval, Timeout: k.Timeout})}
}
