package host_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
)

// Health answers for the whole server and for each of its services. For any other name it gives the protocol's answer:
// NOT_FOUND to Check, SERVICE_UNKNOWN to Watch.
func TestHealthProtocol(t *testing.T) {
	t.Parallel()
	p := newProbe("probe", &journal{})
	h, err := host.New(options(t), p.module())
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, h)()
	health := grpc_health_v1.NewHealthClient(h.Dial("probe"))
	const own, foreign = "kaged.toolrunner.v1.ToolRunnerService", "kaged.toolrunner.v1.NoSuchService"
	for _, ready := range []error{nil, fault.New(fault.Unavailable, "no disk")} {
		p.ready = ready
		want := grpc_health_v1.HealthCheckResponse_SERVING
		if ready != nil {
			want = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		for _, name := range []string{"", own, "grpc.health.v1.Health"} {
			resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			if err != nil || resp.GetStatus() != want {
				t.Errorf("Check %q = %v, %v, want %v", name, resp.GetStatus(), err, want)
			}
			if got := watched(t, health, name); got != want {
				t.Errorf("Watch %q = %v, want %v", name, got, want)
			}
		}
		list, err := health.List(t.Context(), &grpc_health_v1.HealthListRequest{})
		if err != nil || list.GetStatuses()[""].GetStatus() != want || list.GetStatuses()[own].GetStatus() != want {
			t.Errorf("List = %v, %v, want %v", list, err, want)
		}
		for _, name := range []string{foreign, "kaged", own + " ", "*"} {
			resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			if status.Code(err) != codes.NotFound {
				t.Errorf("Check %q = %v, %v, want NotFound", name, resp, err)
			}
			if got := watched(t, health, name); got != grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
				t.Errorf("Watch %q = %v, want SERVICE_UNKNOWN", name, got)
			}
		}
	}
}

// watched returns the first status sent to a watcher.
func watched(
	t *testing.T,
	health grpc_health_v1.HealthClient,
	service string,
) grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	stream, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatalf("Watch %q: %v", service, err)
	}
	return resp.GetStatus()
}
