package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// busy is a session with a client that posts messages one after the other, and comes back whenever its socket ends.
//
// Goroutines: one that posts and reads, until the load is over.
type busy struct {
	*kagedtest.Session
	acknowledged []string // messages that were accepted
	failed       int      // runs that did not complete
	resumed      int      // sockets after the first
	refusal      error    // the last refusal of a socket or a message
}

// work posts messages until stop is closed, and reads each run to its end. Once killed is closed, runs may be cut off.
func (w *busy) work(ctx context.Context, t *testing.T, stop, killed <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		run := w.post(ctx, t, "round "+strconv.Itoa(n))
		outcome, why := w.finish(ctx, t, run)
		if outcome == "completed" {
			continue
		}
		w.failed++
		select {
		case <-killed:
		default:
			t.Errorf("session %s: run %s %s, though processes were only drained: %s", w.ID, run, outcome, why)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// post sends a message until it is accepted. One with a lost answer may have been accepted: then another is posted,
// which waits for the first one's run.
func (w *busy) post(ctx context.Context, t *testing.T, text string) (run string) {
	var out struct {
		ID    string
		RunID string `json:"run_id"`
	}
	for ctx.Err() == nil {
		err := w.Client.Do(ctx, http.MethodPost, "/api/v1/sessions/"+w.ID+"/messages", map[string]any{"content": text}, &out)
		if err == nil {
			w.acknowledged = append(w.acknowledged, out.ID)
			return out.RunID
		}
		w.refusal = err
		retry.Wait(ctx, 100*time.Millisecond)
	}
	t.Errorf("session %s: a message was not accepted in time: %v", w.ID, w.refusal)
	return ""
}

// finish reads frames until a run has ended, on as many sockets as it takes.
func (w *busy) finish(ctx context.Context, t *testing.T, run string) (outcome, why string) {
	idle := false
	for ctx.Err() == nil && run != "" {
		f, err := w.Socket.Read()
		if err != nil {
			w.reattach(ctx, t)
			continue
		}
		w.Frames = append(w.Frames, f)
		var p struct {
			RunID          string `json:"run_id"`
			Outcome, State string
		}
		switch f.Type {
		case "run.ended":
			if kagedtest.Payload(t, f, &p); p.RunID == run {
				outcome, why = p.Outcome, string(f.Payload)
			}
		case "session.state":
			kagedtest.Payload(t, f, &p)
			idle = p.State == "idle" && outcome != ""
		}
		if idle {
			return outcome, why
		}
	}
	var now json.RawMessage
	_ = w.Client.Do(t.Context(), http.MethodGet, "/api/v1/sessions/"+w.ID, nil, &now) // what is there is shown
	return "did not end in time", fmt.Sprintf("%s, last refusal %v", now, w.refusal)
}

// reattach opens the next socket where the last one ended.
func (w *busy) reattach(ctx context.Context, t *testing.T) {
	w.Socket.Close()
	var err error
	for ctx.Err() == nil {
		var socket *client.Socket
		if socket, err = w.Client.Attach(ctx, w.ID, w.Seen(), false); err == nil {
			w.Socket, w.resumed = socket, w.resumed+1
			closeWith(ctx, socket)
			return
		}
		if !errors.Is(err, fault.Unavailable) {
			w.refusal = err
		}
		retry.Wait(ctx, 50*time.Millisecond)
	}
}

// closeWith closes a socket when ctx ends.
func closeWith(ctx context.Context, socket *client.Socket) {
	context.AfterFunc(ctx, func() { socket.Close() })
}

// check: no frame is lost, doubled or in another place, and every accepted message is there.
func (w *busy) check(t *testing.T) {
	t.Helper()
	w.Contiguous(t)
	var there []string
	for after := ""; ; {
		var page struct {
			Items []struct {
				ID string `json:"id"`
			}
			NextCursor string `json:"next_cursor"`
		}
		path := "/api/v1/sessions/" + w.ID + "/messages?limit=100" + after
		if err := w.Client.Do(t.Context(), http.MethodGet, path, nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Items {
			there = append(there, m.ID)
		}
		if page.NextCursor == "" {
			break
		}
		after = "&cursor=" + page.NextCursor
	}
	for _, id := range w.acknowledged {
		if !slices.Contains(there, id) {
			t.Errorf("session %s: the accepted message %s is lost", w.ID, id)
		}
	}
	w.SameAgain(t)
}

// rolling is the number of sessions under a rolling restart. Two cores bear 100.
const rolling = 24

// steady answers a message in two slow steps, the first with a tool call.
func steady(r *fakellm.Request) fakellm.Step {
	if len(r.Results()) == 0 {
		return fakellm.Step{
			fakellm.Say("I look at it."), fakellm.Delay(time.Second), fakellm.Tool("file.read", `{"path":"go.mod"}`),
		}
	}
	return fakellm.Step{fakellm.Delay(time.Second), fakellm.Say("That is all there is to say.")}
}

// Under load every replica of a deployment is drained and started again, then the workspace's tool-runner, and then
// each replica is killed: no frame is lost, doubled or reordered, no accepted message is lost, and as long as processes
// are only drained no run is cut off.
func TestRollingRestart(t *testing.T) {
	llm := fakellm.Start(t)
	llm.Keep(1)
	llm.Handle(steady)
	f := startFleet(t, llm, 2, "[limits]\nsessions_per_project = 200\nsessions_per_operator = 200\n")
	var all []string
	for _, name := range serviceNames {
		if !mtls.InWorkspace(name) {
			f.add(t, replicaOf(name, 1))
			all = append(all, replicaOf(name, 0), replicaOf(name, 1))
		}
	}
	dir, c := f.Project(t), f.signIn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	stop, killed := make(chan struct{}), make(chan struct{})
	var working sync.WaitGroup
	var workers []*busy
	for range rolling {
		w := &busy{Session: kagedtest.Open(t, c, dir)}
		workers = append(workers, w)
		closeWith(ctx, w.Socket)
		working.Go(func() { w.work(ctx, t, stop, killed) })
	}
	for _, id := range all {
		began := time.Now()
		f.drain(t, id)
		f.add(t, id)
		t.Logf("drained and started %s in %s", id, time.Since(began).Round(time.Millisecond))
	}
	f.drain(t, "tool-runner")
	f.add(t, "tool-runner")
	close(killed)
	for _, id := range all {
		f.kill(id)
		f.add(t, id)
	}
	close(stop)
	working.Wait()
	runs, failed, resumed, frames := 0, 0, 0, 0
	for _, w := range workers {
		w.check(t)
		runs, failed, resumed, frames = runs+len(w.acknowledged), failed+w.failed, resumed+w.resumed, frames+len(w.Frames)
	}
	t.Logf("%d sessions: %d messages, %d runs cut off by kills, %d sockets came back, %d frames", rolling, runs,
		failed, resumed, frames)
}

// A session-manager that is stopped beyond its lease cannot write when it continues: the next holder has ended its run,
// what it still sends is in no channel, and the session goes on without it.
func TestAStoppedHolderCannotWrite(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(
		fakellm.Step{fakellm.Say("Half"), fakellm.Wait(gate), fakellm.Say(" done by the old holder.")},
		fakellm.Step{fakellm.Say("Again.")}))
	f := startFleet(t, llm, 2, "[services.session-manager]\nlease_ttl = \"2s\"\n")
	defer gate.Open()
	w := &busy{Session: kagedtest.Open(t, f.signIn(t), f.Project(t))}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	closeWith(ctx, w.Socket)
	run := w.post(ctx, t, "look around")
	if err := gate.Reached(ctx); err != nil {
		t.Fatal(err)
	}
	f.add(t, replicaOf("session-manager", 1))
	old := f.process(replicaOf("session-manager", 0))
	old.Signal(syscall.SIGSTOP)
	if outcome, why := w.finish(ctx, t, run); outcome != "failed" {
		t.Errorf("the run %s: %s", outcome, why)
	}
	gate.Open()
	old.Signal(syscall.SIGCONT)
	if outcome, why := w.finish(ctx, t, w.post(ctx, t, "and again")); outcome != "completed" {
		t.Errorf("the next run %s: %s", outcome, why)
	}
	w.check(t)
	for _, frame := range w.Frames {
		if strings.Contains(string(frame.Raw), "by the old holder") {
			t.Errorf("the old holder wrote %s", frame.Raw)
		}
	}
}
