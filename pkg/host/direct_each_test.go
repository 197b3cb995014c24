package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

type toolStream = grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent]

// toolRunner is a service with one call, which runs a function of the test.
type toolRunner struct {
	*probe
	serve func(*toolrunnerv1.RunToolRequest, toolStream) error
}

func (r toolRunner) Register(s grpc.ServiceRegistrar) {
	toolrunnerv1.RegisterToolRunnerServiceServer(s, r)
}

func (r toolRunner) RunTool(req *toolrunnerv1.RunToolRequest, s toolStream) error {
	return r.serve(req, s)
}

// runTools starts a host with the service. It returns a function that makes a call by rpc.Each, and one that stops the
// host.
func runTools(
	t *testing.T, direct bool, serve func(*toolrunnerv1.RunToolRequest, toolStream) error,
) (call func(context.Context, func(text string), ...grpc.CallOption) error, stop func() error) {
	t.Helper()
	opts := options(t)
	opts.File = &config.File{Host: config.Host{
		DrainGrace: config.Duration(10 * time.Millisecond), StopTimeout: config.Duration(10 * time.Millisecond),
	}}
	service := toolRunner{newProbe("b", &journal{}), serve}
	h, err := host.New(opts,
		host.Module{Name: "b", Direct: direct, New: func(*host.Env) (host.Service, error) { return service, nil }})
	if err != nil {
		t.Fatal(err)
	}
	client := toolrunnerv1.NewToolRunnerServiceClient(h.Dial("b"))
	call = func(ctx context.Context, receive func(string), more ...grpc.CallOption) error {
		return rpc.Each(func(opts ...grpc.CallOption) (grpc.ServerStreamingClient[toolrunnerv1.RunToolEvent], error) {
			return client.RunTool(ctx, &toolrunnerv1.RunToolRequest{CallId: "1"}, append(opts, more...)...)
		}, func(e *toolrunnerv1.RunToolEvent) { receive(e.GetOutput().GetText()) })
	}
	return call, sync.OnceValue(run(t, h))
}

func wrote(text string) *toolrunnerv1.RunToolEvent {
	return &toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Output{
		Output: &toolrunnerv1.ToolOutput{Text: text},
	}}
}

// A caller gets each message while the handler runs, whichever goroutine sends it, then the header, the trailer and the
// error of the call. Without a transport the handler runs on the caller's goroutine.
func TestEach(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			const messages = 100
			received := make(chan string, messages)
			returned := false // without a lock: the race detector knows whether the goroutine is the caller's
			call, stop := runTools(t, direct, func(req *toolrunnerv1.RunToolRequest, s toolStream) error {
				if err := s.SendHeader(metadata.Pairs("begin", req.GetCallId())); err != nil {
					return err
				}
				s.SetTrailer(metadata.Pairs("end", "yes"))
				for i := range messages {
					sent := make(chan error)
					go func() { sent <- s.Send(wrote(fmt.Sprint(i))) }()
					if err := <-sent; err != nil {
						return err
					}
					if got := <-received; got != fmt.Sprint(i) {
						t.Errorf("message %d is %q", i, got)
					}
				}
				if direct {
					returned = true
				}
				return fault.New(fault.Conflict, "Said at the end.").With("n", 1.0)
			})
			var header, trailer metadata.MD
			err := call(t.Context(), func(text string) { received <- text }, grpc.Header(&header), grpc.Trailer(&trailer))
			if !errors.Is(err, fault.Conflict) || fault.From(err).Details["n"] != 1.0 {
				t.Errorf("the end is %v, want the handler's error with its details", err)
			}
			if len(header["begin"]) != 1 || len(trailer["end"]) != 1 || direct && !returned {
				t.Errorf("header %v, trailer %v; the handler has returned: %v", header, trailer, direct && returned)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call by rpc.Each ends as any other: without an error, with its context, with its service, and if a message is too
// long.
func TestTheEndOfEach(t *testing.T) {
	t.Parallel()
	until := func(s toolStream) error {
		<-s.Context().Done()
		if err := s.Send(wrote("late")); status.Code(err) != codes.Canceled {
			return fmt.Errorf("a caller that has left gets a message: %w", err)
		}
		return s.Context().Err()
	}
	for _, direct := range []bool{false, true} {
		for name, c := range map[string]struct {
			serve func(toolStream) error
			end   func(leave, stop func())
			code  fault.Code
		}{
			"it has ended": {func(s toolStream) error { return s.Send(wrote("all")) }, func(_, _ func()) {}, 0},
			"a panic":      {func(toolStream) error { panic("a defect") }, func(_, _ func()) {}, fault.Internal},
			"a long message": {
				func(s toolStream) error { return s.Send(wrote(strings.Repeat("x", rpc.MaxMessage))) },
				func(_, _ func()) {}, fault.PayloadTooLarge,
			},
			"the caller leaves": {until, func(leave, _ func()) { leave() }, fault.Cancelled},
			"the service stops": {until, func(_, stop func()) { go stop() }, fault.Unavailable},
		} {
			t.Run(fmt.Sprint(name, ", direct ", direct), func(t *testing.T) {
				t.Parallel()
				runs := make(chan struct{})
				call, stop := runTools(t, direct, func(_ *toolrunnerv1.RunToolRequest, s toolStream) error {
					close(runs)
					return c.serve(s)
				})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				ended := make(chan error)
				go func() { ended <- call(ctx, func(string) {}) }()
				<-runs
				c.end(leave, func() { _ = stop() })
				if err := <-ended; fault.CodeOf(err) != c.code {
					t.Errorf("got %v, want %v", err, c.code)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if err := call(t.Context(), func(string) {}); !errors.Is(err, fault.Unavailable) {
					t.Errorf("the stopped service answers %v", err)
				}
			})
		}
	}
}
