package rpc

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// RequireOperator refuses calls without an operator with unauthenticated, unless the method's option without_operator
// is set.
func RequireOperator(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := operatorKnown(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// RequireOperatorStream is [RequireOperator] for streams.
func RequireOperatorStream(
	srv any,
	stream grpc.ServerStream,
	info *grpc.StreamServerInfo,
	next grpc.StreamHandler,
) error {
	if err := operatorKnown(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

func operatorKnown(ctx context.Context, fullMethod string) error {
	if ident.CallerFrom(ctx).UserID != "" || OptionsOf(fullMethod).WithoutOperator {
		return nil
	}
	return fault.New(fault.Unauthenticated, "Sessions and projects belong to operators; sign in first.")
}
