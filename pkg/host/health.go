package host

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// watchInterval is the interval of readiness checks for a watcher.
const watchInterval = time.Second

// health answers each gRPC health check with a new readiness check of the service, so that no answer is stale. The
// known names are those of the server's gRPC services and "", the whole server; all have the state of the service.
type health struct {
	healthpb.UnimplementedHealthServer
	services map[string]bool             // known names besides ""; set before the server serves
	ready    func(context.Context) error // nil for a service that is always ready
	timeout  time.Duration               // time limit of one readiness check
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

// serves records the names of a server's services. It is called once, after their registration and before the server
// serves.
func (h *health) serves(s *grpc.Server) {
	h.services = map[string]bool{}
	for name := range s.GetServiceInfo() {
		h.services[name] = true
	}
}

func (h *health) stop() { h.once.Do(func() { close(h.stopping) }) }

func (h *health) status(ctx context.Context) healthpb.HealthCheckResponse_ServingStatus {
	now, _ := h.look(ctx)
	return now
}

// look runs the readiness check and returns the reason for a failure, "" if the service is ready or gives no reason.
func (h *health) look(ctx context.Context) (now healthpb.HealthCheckResponse_ServingStatus, why string) {
	select {
	case <-h.stopping:
		return healthpb.HealthCheckResponse_NOT_SERVING, "The service is stopping."
	default:
	}
	if h.ready != nil {
		ctx, cancel := context.WithTimeout(ctx, h.timeout)
		defer cancel()
		if err := h.ready(ctx); err != nil {
			return healthpb.HealthCheckResponse_NOT_SERVING, printable(fault.From(err).Msg)
		}
	}
	return healthpb.HealthCheckResponse_SERVING, ""
}

// printable replaces characters that are invalid in gRPC metadata.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// knows reports whether a name is known.
func (h *health) knows(service string) bool { return service == "" || h.services[service] }

// Check implements the protocol's Check. It fails with NOT_FOUND for an unknown service.
func (h *health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !h.knows(req.GetService()) {
		return nil, status.Errorf(
			codes.NotFound,
			"There is no service %q here; reflection lists those there are.",
			req.GetService(),
		)
	}
	now, why := h.look(ctx)
	if why != "" {
		// The protocol has no field for the reason. Callers that do not read the trailer do not see it.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(rpc.HealthReason, why))
	}
	return &healthpb.HealthCheckResponse{Status: now}, nil
}

// List implements the protocol's List: the state of every name.
func (h *health) List(ctx context.Context, _ *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	now := &healthpb.HealthCheckResponse{Status: h.status(ctx)}
	list := map[string]*healthpb.HealthCheckResponse{"": now}
	for name := range h.services {
		list[name] = now
	}
	return &healthpb.HealthListResponse{Statuses: list}, nil
}

// Watch sends the status now and after each change, until the caller leaves or the server stops. As the protocol
// requires, the status of an unknown service is SERVICE_UNKNOWN, and the stream stays open.
func (h *health) Watch(
	req *healthpb.HealthCheckRequest,
	stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse],
) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	current := h.status
	if !h.knows(req.GetService()) {
		current = func(context.Context) healthpb.HealthCheckResponse_ServingStatus {
			return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
	}
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		if now := current(stream.Context()); now != last {
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
			if last == healthpb.HealthCheckResponse_SERVING {
				return stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING})
			}
			return status.Error(codes.Unavailable, "The service is stopping.")
		}
	}
}
