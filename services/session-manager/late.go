package sessionmanager

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/rpc"
)

// late returns a service whose server exists only once the database is open: each call asks for it and fails like it
// does.
func late(desc grpc.ServiceDesc, server func() (any, error)) *grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		handle := m.Handler
		m.Handler = func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			s, err := server()
			if err != nil {
				return nil, rpc.ToStatus(err)
			}
			return handle(s, ctx, decode, interceptor)
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
