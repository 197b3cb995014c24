package sessionmanager

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/rpc"
)

// needNone are the methods that work without the database.
var needNone = map[string]bool{"GetOperator": true}

// late returns a service whose server exists only once the database is open: each call asks for it and fails like it
// does. A call that does not stream fails at once while the database does not answer, and ends when that begins.
func late(desc grpc.ServiceDesc, health *postgres.Health, server func() (any, error)) *grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		handle := m.Handler
		m.Handler = func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			s, err := server()
			if err != nil {
				return nil, rpc.ToStatus(err)
			}
			if needNone[m.MethodName] {
				return handle(s, ctx, decode, interceptor)
			}
			ctx, done, err := health.Bound(ctx)
			if err != nil {
				return nil, rpc.ToStatus(err)
			}
			defer done()
			resp, err := handle(s, ctx, decode, interceptor)
			if err != nil && ctx.Err() != nil {
				err = rpc.ToStatus(postgres.Stalled(ctx, rpc.FromStatus(err)))
			}
			return resp, err
		}
		methods[i] = m
	}
	streams := make([]grpc.StreamDesc, len(desc.Streams))
	for i, d := range desc.Streams {
		handle := d.Handler
		d.Handler = func(_ any, stream grpc.ServerStream) error {
			s, err := server()
			if err != nil {
				return rpc.ToStatus(err)
			}
			return handle(s, stream)
		}
		streams[i] = d
	}
	desc.Methods, desc.Streams = methods, streams
	return &desc
}
