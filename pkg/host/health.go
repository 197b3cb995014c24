package host

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// watchInterval is how often a watcher's service is asked.
const watchInterval = time.Second

// health answers gRPC health checks by asking the service each time, so that it never tells what was.
type health struct {
	healthpb.UnimplementedHealthServer
	ready    func(context.Context) error // nil for a service that is always ready
	timeout  time.Duration               // of one question to it
	stopping chan struct{}
	once     sync.Once
}

func newHealth(s Service, timeout time.Duration) *health {
	h := &health{timeout: timeout, stopping: make(chan struct{})}
	if r, ok := s.(Readier); ok {
		h.ready = r.Ready
	}
	return h
}

func (h *health) stop() { h.once.Do(func() { close(h.stopping) }) }

func (h *health) status(ctx context.Context) healthpb.HealthCheckResponse_ServingStatus {
	select {
	case <-h.stopping:
		return healthpb.HealthCheckResponse_NOT_SERVING
	default:
	}
	if h.ready != nil {
		ctx, cancel := context.WithTimeout(ctx, h.timeout)
		defer cancel()
		if h.ready(ctx) != nil {
			return healthpb.HealthCheckResponse_NOT_SERVING
		}
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Check answers for the whole server; the name of a service is not looked at.
func (h *health) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{Status: h.status(ctx)}, nil
}

// Watch sends the status now and whenever it has changed, until the caller leaves or the server stops.
func (h *health) Watch(_ *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		if now := h.status(stream.Context()); now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return nil
		case <-h.stopping:
			if last != healthpb.HealthCheckResponse_NOT_SERVING {
				return stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING})
			}
			return status.Error(codes.Unavailable, "The service is stopping.")
		}
	}
}
