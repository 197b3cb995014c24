package host_test

import (
	"context"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// A second request to stop cuts off draining and open calls, in the same order.
func TestHurry(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := newProbe("probe", j)
	called := make(chan struct{})
	p.answer = func(ctx context.Context) error {
		close(called)
		<-ctx.Done()
		return ctx.Err()
	}
	p.drain = func(ctx context.Context) { <-ctx.Done() }
	hurry := make(chan struct{})
	opts := options(t)
	opts.Hurry, opts.DrainGrace = hurry, time.Hour
	h, err := host.New(opts, p.module())
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, h)
	answer := make(chan error, 1)
	go func() {
		_, err := toolrunnerv1.NewToolRunnerServiceClient(h.Dial("probe")).
			EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{})
		answer <- err
	}()
	<-called
	close(hurry) // before or after the first request: both cut off the rest
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-answer; fault.CodeOf(err) != fault.Unavailable && fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("the call that was cut off ended with %v", err)
	}
}
