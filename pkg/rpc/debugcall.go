package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/mtls"
)

// DebugCall is a call with a debugging certificate.
type DebugCall struct {
	// Method is the full name of the method.
	Method string
	// Name is the common name of the certificate, Serial its number, Until its end.
	Name, Serial string
	Until        time.Time
	// Remote is the caller's address.
	Remote string
	// Caller is the caller in the call's metadata, which is not verified.
	Caller ident.Caller
}

// debugCall returns the call of a context, nil for one without a debugging certificate and for health checks.
func debugCall(ctx context.Context, method string) *DebugCall {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return nil
	}
	v, ok := from.AuthInfo.(verdict)
	if !ok || v.identity.Service != mtls.Debug || isHealth(method) {
		return nil
	}
	return &DebugCall{
		Method: method, Name: v.cert.Subject.CommonName, Serial: v.cert.SerialNumber.Text(16), Until: v.cert.NotAfter,
		Remote: from.Addr.String(), Caller: ident.CallerFrom(ctx),
	}
}

func (p Peers) record(ctx context.Context, method string) error {
	call := debugCall(ctx, method)
	if call == nil || p.Debugged == nil {
		return nil
	}
	return p.Debugged(ctx, *call)
}

func (p Peers) recordUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
	error,
) {
	if err := p.record(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (p Peers) recordStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler,
) error {
	if err := p.record(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}
