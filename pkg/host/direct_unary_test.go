package host_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/host"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

type childKey struct{}

// prober is a service with one unary call. The call runs a function of the test.
type prober struct {
	*probe
	sandboxsupervisorv1.UnimplementedSandboxServiceServer
	serve func(context.Context) error
}

func (p prober) Register(r grpc.ServiceRegistrar) {
	sandboxsupervisorv1.RegisterSandboxServiceServer(r, p)
}

func (p prober) ProbeCages(
	ctx context.Context, _ *sandboxsupervisorv1.ProbeCagesRequest,
) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
	return &sandboxsupervisorv1.ProbeCagesResponse{}, p.serve(ctx)
}

// The contexts that a handler of a unary call makes of its own end with the caller's. Without a transport they have no
// goroutines.
func TestContextsOfAHandlerEndWithTheCallers(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			const children = 1000
			opened := make(chan int)
			service := prober{probe: newProbe("b", &journal{}), serve: func(ctx context.Context) error {
				before := runtime.NumGoroutine()
				var list []context.Context
				for range children {
					child, cancel := context.WithCancel(context.WithValue(ctx, childKey{}, 1))
					defer cancel()
					list = append(list, child)
				}
				opened <- runtime.NumGoroutine() - before
				for _, child := range list {
					<-child.Done()
				}
				return nil
			}}
			h, err := host.New(options(t),
				host.Module{Name: "b", Direct: direct, New: func(*host.Env) (host.Service, error) { return service, nil }})
			if err != nil {
				t.Fatal(err)
			}
			stop := sync.OnceValue(run(t, h))
			client := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("b"))
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := client.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{})
				ended <- err
			}()
			if more := <-opened; more > children/2 {
				t.Errorf("%d contexts have %d goroutines", children, more)
			}
			leave()
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("got %v", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
