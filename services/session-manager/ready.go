package sessionmanager

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/pkg/rpc"
)

// readyUnary refuses calls until the service is ready. While the database does not answer, a call that needs it
// fails at once, and one in progress is cancelled.
func (s *Service) readyUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if !s.ready.Load() {
		return nil, database.NotOpen()
	}
	if rpc.OptionsOf(info.FullMethod).WithoutStorage {
		return next(ctx, req)
	}
	return s.health.Call(ctx, func(ctx context.Context) (any, error) { return next(ctx, req) })
}

// admitUnary refuses calls of disabled operators.
func (s *Service) admitUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if !rpc.OptionsOf(info.FullMethod).WithoutStorage {
		if err := s.operators.Admit(ctx); err != nil {
			return nil, err
		}
	}
	return next(ctx, req)
}

// admitStream refuses streams of disabled operators.
func (s *Service) admitStream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	if err := s.operators.Admit(stream.Context()); err != nil {
		return err
	}
	return next(srv, stream)
}

// readyStream refuses streams until the service is ready.
func (s *Service) readyStream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	if !s.ready.Load() {
		return database.NotOpen()
	}
	return next(srv, stream)
}
