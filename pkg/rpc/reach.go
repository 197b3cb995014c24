package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
)

// reachLimit is the time that Reach waits for a connection.
const reachLimit = 2 * time.Second

// Reach opens a stream with open, which passes the options to its call. It waits for a connection: after the start of
// a service its clients may take a second to connect, and would refuse calls meanwhile. It fails with
// fault.Unavailable if there is no connection after two seconds.
func Reach[S any](
	ctx context.Context, open func(context.Context, ...grpc.CallOption) (S, error),
) (stream S, err error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(reachLimit, cancel)
	stream, err = open(ctx, grpc.WaitForReady(true))
	if inTime := late.Stop(); err == nil && inTime {
		return stream, nil
	} else if !inTime {
		err = fault.New(fault.Unavailable, "The service cannot be reached.")
	}
	cancel()
	var none S
	return none, err
}
