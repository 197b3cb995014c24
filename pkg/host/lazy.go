package host

import (
	"context"
	"sync"

	"google.golang.org/grpc"
)

// lazy is a connection that is created on first use. A gRPC connection has goroutines from its creation, and a host
// that is built but never run must leave no goroutine.
type lazy struct {
	dial func() (*grpc.ClientConn, error)
	name string

	once sync.Once
	conn *grpc.ClientConn
	err  error
}

func (l *lazy) get() (*grpc.ClientConn, error) {
	l.once.Do(func() { l.conn, l.err = l.dial() })
	if l.err != nil {
		return nil, unreachable(l.name, l.err)
	}
	return l.conn, nil
}

// Invoke makes a unary call.
func (l *lazy) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := l.get()
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream opens a stream.
func (l *lazy) NewStream(
	ctx context.Context,
	desc *grpc.StreamDesc,
	method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := l.get()
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...)
}
