package host_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"
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

// runProber runs a host with the service until stop, which returns the host's error.
func runProber(
	t *testing.T, service prober, direct bool,
) (client sandboxsupervisorv1.SandboxServiceClient, stop func() error) {
	t.Helper()
	h, err := host.New(options(t),
		host.Module{Name: "b", Direct: direct, New: func(*host.Env) (host.Service, error) { return service, nil }})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(run(t, h))
	return sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("b")), stop
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
				return ctx.Err() // an answer could still arrive, although the caller has left
			}}
			client, stop := runProber(t, service, direct)
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

// A call in place returns after its handler, also if its context ends earlier. The handler has none of the caller's
// values, and its header and trailer arrive. Over a transport the option has no effect.
func TestInPlace(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(context.WithValue(t.Context(), childKey{}, "the caller's"))
			defer leave()
			var lasts atomic.Bool
			returned := false // without a lock: the race detector knows whether the goroutine is the caller's
			service := prober{probe: newProbe("b", &journal{}), serve: func(ctx context.Context) error {
				if ctx.Value(childKey{}) != nil {
					t.Error("the handler has a value of the caller")
				}
				if err := grpc.SetTrailer(ctx, metadata.Pairs("end", "yes")); err != nil {
					t.Error(err)
				}
				if err := grpc.SetHeader(ctx, metadata.Pairs("begin", "yes")); err != nil {
					t.Error(err)
				}
				if lasts.Load() {
					leave()
					<-ctx.Done()
				}
				if direct {
					returned = true
				}
				return ctx.Err()
			}}
			client, stop := runProber(t, service, direct)
			var header, trailer metadata.MD
			probe := func() error {
				_, err := client.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{}, rpc.InPlace(), grpc.Header(&header),
					grpc.Trailer(&trailer))
				return err
			}
			if err := probe(); err != nil || len(header["begin"]) != 1 || len(trailer["end"]) != 1 {
				t.Errorf("got %v, header %v, trailer %v", err, header, trailer)
			}
			lasts.Store(true)
			if err := probe(); !errors.Is(err, fault.Cancelled) || direct && !returned {
				t.Errorf("got %v; the handler has returned: %v", err, direct && returned)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
