package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

type runStream = grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]

// streamer is a service whose streams run functions given by a test.
type streamer struct {
	harnessv1.UnimplementedHarnessServiceServer
	serve func(runStream) error
}

func (s streamer) Run(stream runStream) error { return s.serve(stream) }

// streaming runs a streamer.
type streaming struct {
	*probe
	streamer streamer
}

func (s streaming) Register(r grpc.ServiceRegistrar) {
	harnessv1.RegisterHarnessServiceServer(r, s.streamer)
}

// streams starts a host with a service, called directly or over a transport, and returns its client and a function that
// stops the host.
func streams(
	t *testing.T,
	direct bool,
	serve func(runStream) error,
) (client harnessv1.HarnessServiceClient, stop func() error) {
	t.Helper()
	opts := options(t)
	opts.File = &config.File{
		Host: config.Host{
			DrainGrace:  config.Duration(10 * time.Millisecond),
			StopTimeout: config.Duration(10 * time.Millisecond),
		},
	}
	service := streaming{newProbe("b", &journal{}), streamer{serve: serve}}
	h, err := host.New(
		opts,
		host.Module{Name: "b", Direct: direct, New: func(*host.Env) (host.Service, error) { return service, nil }},
	)
	if err != nil {
		t.Fatal(err)
	}
	return harnessv1.NewHarnessServiceClient(h.Dial("b")), sync.OnceValue(run(t, h))
}

func text(s string) *harnessv1.RunEvent {
	return &harnessv1.RunEvent{Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Text: s}}}
}

// A caller that promises not to change what it receives shares the sender's messages inside the process. With and
// without the promise it gets the same, and a message that is too long is refused.
func TestReadOnlyStreams(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		for _, promised := range []bool{false, true} {
			t.Run(fmt.Sprint("direct ", direct, ", promised ", promised), func(t *testing.T) {
				t.Parallel()
				ev := text("said")
				client, stop := streams(t, direct, func(s runStream) error {
					if err := s.Send(ev); err != nil {
						return err
					}
					return s.Send(text(strings.Repeat("x", rpc.MaxMessage)))
				})
				var opts []grpc.CallOption
				if promised {
					opts = append(opts, rpc.ReadOnly())
				}
				stream, err := client.Run(t.Context(), opts...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := stream.Recv()
				if err != nil || got.GetDelta().GetText() != "said" {
					t.Errorf("the message is %v, %v", got, err)
				}
				if shared := got.GetDelta() == ev.GetDelta(); shared != (direct && promised) {
					t.Errorf("the message is the sender's: %v", shared)
				}
				if _, err := stream.Recv(); !errors.Is(err, fault.PayloadTooLarge) {
					t.Errorf("a message that is too long: %v", err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Both sides of a stream inside the process see the same with and without a transport.
func TestStreamsInsideTheProcess(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			caller := ident.Caller{UserID: "ada", RequestID: "R"}
			client, stop := streams(t, direct, func(s runStream) error {
				if got := ident.CallerFrom(s.Context()); got != caller {
					t.Errorf("the caller is %+v, want %+v", got, caller)
				}
				ev := text("")
				for i := range 1000 { // the message is reused, as a server may do
					ev.GetDelta().Text = fmt.Sprint(i)
					if err := s.Send(ev); err != nil {
						return err
					}
				}
				for {
					if _, err := s.Recv(); errors.Is(err, io.EOF) {
						return fault.New(fault.Conflict, "Said at the end.").With("n", 1.0)
					} else if err != nil {
						return err
					}
				}
			})
			stream, err := client.Run(ident.WithCaller(t.Context(), caller))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 1000 {
				ev, err := stream.Recv()
				if err != nil || ev.GetDelta().GetText() != fmt.Sprint(i) {
					t.Fatalf("message %d is %v, %v", i, ev, err)
				}
			}
			if err := stream.Send(&harnessv1.RunRequest{}); err != nil {
				t.Error(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); !errors.Is(err, fault.Conflict) || fault.From(err).Details["n"] != 1.0 {
				t.Errorf("the end is %v, want the server's error with its details", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			stream, err = client.Run(t.Context())
			if err == nil {
				_, err = stream.Recv()
			}
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("a call of a service that has stopped says %v, want unavailable", err)
			}
		})
	}
}

// A stream ends for both sides when its caller leaves, when its service stops, and when a message is too large.
func TestStreamsInsideTheProcessEnd(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		for _, c := range []struct {
			name  string
			serve func(runStream) error
			end   func(cancel context.CancelFunc, stop func() error)
			want  fault.Code
		}{
			{"the caller leaves", waiting, func(cancel context.CancelFunc, _ func() error) { cancel() }, fault.Cancelled},
			{
				"the caller leaves without reading", flooding, func(cancel context.CancelFunc, _ func() error) {
					cancel()
				}, fault.Cancelled,
			},
			{"the service stops", waiting, func(_ context.CancelFunc, stop func() error) { go stop() }, fault.Unavailable},
			{"too large", func(s runStream) error {
				return s.Send(text(strings.Repeat("x", 17<<20)))
			}, func(context.CancelFunc, func() error) {}, fault.PayloadTooLarge},
		} {
			t.Run(fmt.Sprint(c.name, ", direct ", direct), func(t *testing.T) {
				t.Parallel()
				begun, ended := make(chan struct{}), make(chan error, 1)
				client, stop := streams(t, direct, func(s runStream) (err error) {
					close(begun)
					defer func() { ended <- err }()
					return c.serve(s)
				})
				defer stop()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream, err := client.Run(ctx)
				if err != nil {
					t.Fatal(err)
				}
				<-begun
				c.end(cancel, stop)
				for err == nil {
					_, err = stream.Recv()
				}
				if got := fault.From(err).Code; got != c.want {
					t.Errorf("the caller is told %v, want %v", err, c.want)
				}
				if err := <-ended; err == nil {
					t.Error("the handler ended without an error")
				}
			})
		}
	}
}

// waiting waits for a request that never comes.
func waiting(s runStream) error {
	_, err := s.Recv()
	return err
}

// flooding sends until sending fails.
func flooding(s runStream) error {
	for {
		if err := s.Send(text(strings.Repeat("x", 1000))); err != nil {
			return err
		}
	}
}

// A service that sends to a caller that has left gets cancelled as error, which is not the service's failure.
func TestSendingToACallerThatLeft(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			sent := make(chan error, 1)
			client, stop := streams(t, direct, func(s runStream) error {
				<-s.Context().Done()
				err := s.Send(text("late"))
				sent <- err
				return err
			})
			ctx, leave := context.WithCancel(t.Context())
			if _, err := client.Run(ctx); err != nil {
				t.Fatal(err)
			}
			leave()
			if err := <-sent; status.Code(err) != codes.Canceled {
				t.Errorf("sending fails with %v, want cancelled", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A stream lasts as long as its context even if its caller keeps no reference to it, because a held cage depends on
// that.
func TestAStreamLastsAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			look, alive := make(chan struct{}), make(chan error)
			client, stop := streams(t, direct, func(s runStream) error {
				if err := s.Send(text("held")); err != nil {
					return err
				}
				<-look
				alive <- s.Context().Err()
				return waiting(s)
			})
			ctx, leave := context.WithCancel(t.Context())
			func() {
				stream, err := client.Run(ctx)
				if err == nil {
					_, err = stream.Recv()
				}
				if err != nil {
					t.Fatal(err)
				}
			}()
			for range 2 { // finalizers run one after the other: the stream's before the marker's
				gone, marker := make(chan struct{}), &struct{ next *int }{new(int)}
				runtime.SetFinalizer(marker, func(any) { close(gone) })
				runtime.GC()
				<-gone
			}
			close(look)
			if err := <-alive; err != nil {
				t.Errorf("the stream has ended: %v", err)
			}
			leave()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
