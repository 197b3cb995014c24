package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// hold is an Attach stream.
type hold struct {
	t      testing.TB
	stream grpc.ServerStreamingClient[sessionmanagerv1.AttachEvent]
	cancel context.CancelFunc
	seq    map[string]int64
}

// tryAttach attaches, or returns the error.
func (n *node) tryAttach(user, session string, takeover bool) (*hold, error) {
	ctx, cancel := context.WithCancel(as(n.w.t, user))
	stream, err := n.Attach.Attach(ctx, &sessionmanagerv1.AttachRequest{SessionId: session, Takeover: takeover})
	if err == nil {
		var event *sessionmanagerv1.AttachEvent
		if event, err = stream.Recv(); err == nil {
			return &hold{n.w.t, stream, cancel, event.GetAttached().GetServerSeq()}, nil
		}
	}
	cancel()
	return nil, err
}

func (n *node) attach(user, session string, takeover bool) *hold {
	n.w.t.Helper()
	h, err := n.tryAttach(user, session, takeover)
	if err != nil {
		n.w.t.Fatalf("attaching: %v", err)
	}
	n.w.t.Cleanup(h.cancel)
	return h
}

// ended waits for the end of the hold and returns it.
func (h *hold) ended() *sessionmanagerv1.AttachEnded {
	h.t.Helper()
	stop := time.AfterFunc(deadline, h.cancel)
	defer stop.Stop()
	event, err := h.stream.Recv()
	for err == nil && event.GetWanted() != nil {
		event, err = h.stream.Recv()
	}
	if err != nil {
		h.t.Fatalf("the hold ended with %v", err)
	}
	if _, err := h.stream.Recv(); !errors.Is(err, io.EOF) {
		h.t.Errorf("after the end came %v", err)
	}
	return event.GetEnded()
}

// One socket holds a session; another is refused, or takes the session over; the end of a hold frees the session;
// the reported numbers are those of the published frames. A-WS-UP-03, A-CONTRA-07, A-WS-CTRL-02.
func TestAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	first := n.attach("ada", s, false)
	if first.seq["output"] != 0 || first.seq["events"] != 0 || len(first.seq) != 2 {
		t.Errorf("server_seq = %v", first.seq)
	}
	_, err := n.tryAttach("ada", s, false)
	refused(t, err, fault.SessionAttached)
	if event, err := first.stream.Recv(); err != nil || event.GetWanted() == nil {
		t.Errorf("the first was told %v, %v instead of being wanted", event, err)
	}
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	w.await(s, "events", `session.state {"state":"idle"}`)
	w.await(s, "output", "message.end")
	second := n.attach("ada", s, true)
	if got := first.ended(); got.GetCode() != "replaced" {
		t.Errorf("the first was told %v", got)
	}
	if second.seq["output"] != 4 || second.seq["events"] != 4 {
		t.Errorf("server_seq = %v", second.seq)
	}
	second.cancel()
	eventually(t, "the session is free", func() error {
		third, err := n.tryAttach("ada", s, false)
		if err == nil {
			third.cancel()
		}
		return err
	})
}

// The stream gets the configured retention, even if it was created with another one: frames older than
// frame_retention cannot be read again.
func TestFramesAgeOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // creates the stream with the default retention of minutes
	n := w.start("a", func(c *Config) { c.FrameRetention = config.Duration(time.Second) })
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
	eventually(t, "the frames are published", func() error {
		hold := n.attach("ada", s, true)
		defer hold.cancel()
		if hold.seq["output"] != 4 {
			return fmt.Errorf("server_seq = %v", hold.seq)
		}
		return nil
	})
	eventually(t, "the frames are gone", func() error {
		if _, found, err := w.frames.Tail(t.Context(), s, "output"); err != nil || found {
			return fmt.Errorf("found %v, %v", found, err)
		}
		return nil
	})
}

// A client that reconnects before the loss of its old socket is known waits for that and is not refused. If several
// do, one at a time gets the session. A-WS-UP-04.
func TestComingBackAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.AttachWait = config.Duration(time.Hour) })
	s := n.session("ada")
	first := n.attach("ada", s, false)
	const others = 3
	came := make(chan *hold, others)
	var coming sync.WaitGroup
	for range others {
		coming.Go(func() {
			h, err := n.tryAttach("ada", s, false)
			if err != nil {
				t.Errorf("coming back: %v", err)
				return
			}
			came <- h
		})
	}
	first.cancel()
	for range others {
		select {
		case h := <-came:
			if len(came) > 0 {
				t.Error("two hold the session")
			}
			h.cancel()
		case <-time.After(deadline):
			t.Fatal("no socket gets the session")
		}
	}
	coming.Wait()

	// A cancelled attach leaves no hold behind.
	second := n.attach("ada", s, false)
	ctx, cancel := context.WithTimeout(as(t, "ada"), 20*time.Millisecond)
	defer cancel()
	stream, err := n.Attach.Attach(ctx, &sessionmanagerv1.AttachRequest{SessionId: s})
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, err, fault.DeadlineExceeded)
	second.cancel()
	n.attach("ada", s, false)
}

// A socket that waits for the session while the session ends is refused, and holds nothing.
func TestComingBackToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.AttachWait = config.Duration(time.Hour) })
	s := n.session("ada")
	first := n.attach("ada", s, false)
	came := make(chan error, 1)
	go func() {
		h, err := n.tryAttach("ada", s, false)
		if err == nil {
			h.cancel()
		}
		came <- err
	}()
	eventually(t, "a second socket waits for the session", func() error {
		if users := n.sessions.Users(s); users != 2 {
			return fmt.Errorf("%d use it", users)
		}
		return nil
	})
	if _, err := n.Sessions.EndSession(as(t, "ada"), &apiv1.EndSessionRequest{Id: s, Confirm: true}); err != nil {
		t.Fatal(err)
	}
	if got := first.ended(); got.GetCode() != "session_ended" {
		t.Errorf("the first was told %v", got)
	}
	first.cancel()
	refused(t, <-came, fault.Gone)
}

// An unused session is unloaded with its cached conversation, and its lease released; its frame numbers continue in
// this and in other processes.
func TestUnload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("a"), w.start("b")
	s := a.session("ada")
	for i, n := range []*node{a, a, b, a} {
		eventually(t, "the session is free", func() error {
			if a.sessions.Live()+b.sessions.Live() != 0 || a.sessions.Kept()+b.sessions.Kept() != 0 {
				return errors.New("it is live, or its conversation is cached")
			}
			return nil
		})
		kept := make(chan int64, 1)
		w.harness.expect(func(p *play) { kept <- n.sessions.Kept(); sayHello(p) })
		n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
		if got := <-kept; (got > 0) != (i > 0) {
			t.Errorf("run %d: %d bytes of the conversation before it are cached", i, got)
		}
	}
	if got := w.await(s, "output", "message.end"); count(got, "message.end") != 4 {
		t.Errorf("output = %q", kinds(got))
	}
	eventually(t, "the last state is out", func() error {
		if got := w.channel(s, "events"); count(got, "session.state") != 8 {
			return errors.New("not yet")
		}
		return nil
	})
}

// A process that does not hold a session returns the address of the holder.
func TestHeldElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("a"), w.start("b")
	s := a.session("ada")
	a.attach("ada", s, false)
	content := "Hi."
	_, err := b.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
	if f := refused(t, err, fault.StaleLease); f.Details["holder"] != a.address {
		t.Errorf("details = %v", f.Details)
	}
	_, err = b.tryAttach("ada", s, true)
	if f := refused(t, err, fault.StaleLease); f.Details["holder"] != a.address {
		t.Errorf("details = %v", f.Details)
	}
	if got := b.get("ada", s); got.GetId() != s {
		t.Errorf("reading needs no lease: %v", got)
	}
}

// Stopping tells sockets, ends runs at once after the grace, and releases leases, so that the next process works
// without waiting. Requests meanwhile are unavailable. A-FAIL-07.
func TestStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// With these times a lease is only free if it was released.
	long := func(c *Config) { c.LeaseTTL, c.Farewell = config.Duration(time.Hour), config.Duration(time.Minute) }
	a := w.start("a", long)
	s, other := a.session("ada"), a.session("ada")
	w.harness.expect(func(p *play) {
		p.model()
		p.turn(1, true, text("I think."), call("c1", "file.read", `{}`))
		p.hang()
	})
	first := a.attach("ada", s, false)
	posted := a.post("ada", s, "Think.")
	eventually(t, "the turn is stored", func() error {
		resp, err := a.Sessions.GetRun(as(t, "ada"), &apiv1.GetRunRequest{SessionId: s, RunId: posted.GetRunId()})
		if err == nil && len(resp.GetRun().GetSteps()) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	a.Drain(ctx)
	cancel()
	if got := first.ended(); got.GetCode() != "server_shutdown" {
		t.Errorf("the socket was told %v", got)
	}
	_, err := a.tryAttach("ada", other, false)
	refused(t, err, fault.Unavailable)
	a.halt()
	b := w.start("b", long)
	run := b.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "failed" || len(run.GetSteps()) != 1 {
		t.Errorf("run = %v", run)
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "run.ended") != 1 {
		t.Errorf("events = %q", events)
	}
	b.run("ada", s, b.post("ada", s, "Go on.").GetRunId())
}
