package toolrunner_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// holdRun holds a run of the session s1. release ends the hold; ended waits for the stream's error.
func (c *client) holdRun(run string) (release func(), ended func() error) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	stream, err := c.HoldRun(
		ctx,
		&toolrunnerv1.HoldRunRequest{Context: &toolrunnerv1.ToolContext{SessionId: "s1", RunId: run, ProjectId: "p1"}},
	)
	if err != nil {
		c.t.Fatal(err)
	}
	if event, err := stream.Recv(); err != nil || event.GetOpened() == nil {
		c.t.Fatalf("got %v, %v, want that the run is held", event, err)
	}
	return cancel, func() error { _, err := stream.Recv(); return err }
}

// The end of a run's stream, for any reason, cancels the run's calls and no others. Late calls are refused. A run that
// is held again continues.
func TestTheEndOfARunEndsItsCalls(t *testing.T) {
	t.Parallel()
	box := newSandbox()
	c := start(t, box)
	release, _ := c.holdRun("r1")
	long := c.request("shell.bash", `{"command":"sleep 600"}`)
	other := c.request("shell.bash", `{"command":"echo still here; read x"}`)
	other.Context.RunId = "r2"
	results := make(chan *toolrunnerv1.ToolResult, 1)
	go func() {
		_, result, err := c.run(long)
		if err != nil {
			t.Error(err)
		}
		results <- result
	}()
	<-box.asked
	release()
	if got := <-results; !errors.Is(fault.FromProto(got.GetError()), fault.Cancelled) {
		t.Errorf("got %v from a call of a run that has ended, want cancelled", got)
	}
	late := c.request("shell.bash", `{"command":"true"}`)
	if _, _, err := c.run(late); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v from a late call, want unavailable", err)
	}
	if _, result, err := c.run(other); err != nil || result.GetError() != nil {
		t.Errorf("got %v, %v from a call of a run that was never held", result, err)
	}
	again, _ := c.holdRun("r1")
	defer again()
	if _, result, err := c.run(late); err != nil || result.GetError() != nil {
		t.Errorf("got %v, %v from a call of a run that is held again", result, err)
	}
}

// A run needs a session and an id.
func TestARunIsNamed(t *testing.T) {
	t.Parallel()
	c := start(t, newSandbox())
	for name, from := range map[string]*toolrunnerv1.ToolContext{
		"no session": {RunId: ident.New()}, "no run": {SessionId: "s1"}, "nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, err := c.HoldRun(t.Context(), &toolrunnerv1.HoldRunRequest{Context: from})
			if err == nil {
				_, err = stream.Recv()
			}
			if !errors.Is(err, fault.BadRequest) || errors.Is(err, io.EOF) {
				t.Errorf("got %v, want bad_request", err)
			}
		})
	}
}
