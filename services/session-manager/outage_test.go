package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// The store and the stream refuse a process that lost its lease unnoticed: the next holder ends its run once, its
// later frames are dropped, and it makes no further model request.
func TestZombie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.start("a")
	s := old.session("ada")
	taken := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		p.delta("Before.")
		p.turn(1, true, call("c1", "file.read", `{}`))
		<-taken
		for i := range 100 {
			p.delta(fmt.Sprint("After ", i))
		}
		p.tool(1, "c1", "file.read", `{}`, "x")
		p.done(1)
		p.claims(2, 1)
		t.Error("a request was granted by a process without the lease")
	})
	hold := old.attach("ada", s, false)
	posted := old.post("ada", s, "Hi.")
	w.await(s, "output", "message.delta")
	eventually(t, "the turn is stored", func() error { return stepsAtLeast(old, s, posted.GetRunId(), 1) })
	// The same node's next instance releases the leases of the old instance as dead.
	next := w.start("a")
	run := next.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "failed" || len(run.GetSteps()) != 1 {
		t.Errorf("run = %v", run)
	}
	close(taken)
	if got := hold.ended(); got.GetCode() != "server_shutdown" {
		t.Errorf("the old hold ended with %v", got)
	}
	eventually(t, "the old process lets go", func() error {
		if n := old.sessions.Live(); n != 0 {
			return fmt.Errorf("%d sessions are live there", n)
		}
		return nil
	})
	next.run("ada", s, next.post("ada", s, "Again.").GetRunId())
	output := w.await(s, "output", "message.end")
	for _, f := range output {
		if strings.Contains(f, "After") {
			t.Errorf("the old process published %s", f)
		}
	}
	events := w.await(s, "events", `session.state {"state":"idle"}`)
	if count(events, "run.ended") != 2 || count(output, "message.end") != 2 {
		t.Errorf("events = %q, output = %q", kinds(events), kinds(output))
	}
}

func stepsAtLeast(n *node, session, run string, want int) error {
	resp, err := n.Sessions.GetRun(as(n.w.t, "ada"), &apiv1.GetRunRequest{SessionId: session, RunId: run})
	if err == nil && len(resp.GetRun().GetSteps()) < want {
		err = fmt.Errorf("%d steps", len(resp.GetRun().GetSteps()))
	}
	return err
}

// While NATS is unreachable messages are accepted and runs complete and are stored; once NATS is back every frame
// is published in order.
func TestNATSOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	warm, cold := n.session("ada"), n.session("ada")
	n.run("ada", warm, n.post("ada", warm, "Hi.").GetRunId())
	w.await(warm, "events", `session.state {"state":"idle"}`)
	w.nats.Stop()
	for range 3 {
		for _, s := range []string{warm, cold} {
			if got := n.run("ada", s, n.post("ada", s, "Hi.").GetRunId()); got.GetOutcome() != "completed" {
				t.Errorf("run = %v", got)
			}
		}
	}
	w.nats.Start()
	for s, runs := range map[string]int{warm: 4, cold: 3} {
		eventually(t, "all frames have come", func() error {
			output, err := w.tryChannel(s, "output")
			if err != nil {
				return err
			}
			events, err := w.tryChannel(s, "events")
			if err == nil && (len(output) != 4*runs || len(events) != 4*runs) {
				err = fmt.Errorf("%d and %d frames", len(output), len(events))
			}
			return err
		})
	}
}

// A run whose frames cannot be published stops reading its provider at the bound of the buffer, and continues once
// they can. It can be cancelled meanwhile.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.FrameBuffer = 64 << 10 })
	s := n.session("ada")
	var sent atomic.Int64
	piece := strings.Repeat("x", 32<<10)
	w.harness.expect(func(p *play) {
		p.model()
		for len(p.cancelled) == 0 {
			p.delta(piece)
			sent.Add(1)
		}
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
		})
	})
	n.attach("ada", s, false)
	w.nats.Stop()
	posted := n.post("ada", s, "Go.")
	var before int64
	still := time.Now()
	eventually(t, "the provider is read no further", func() error {
		if now := sent.Load(); now != before || now == 0 {
			before, still = now, time.Now()
		}
		if time.Since(still) < 300*time.Millisecond {
			return fmt.Errorf("%d pieces so far", before)
		}
		return nil
	})
	// The transport's own buffer comes in addition.
	if before > 100 {
		t.Errorf("%d KiB were read while no frame was published", before*32)
	}
	w.nats.Start()
	eventually(t, "it is read on", func() error {
		if sent.Load() < before+100 {
			return errors.New("not yet")
		}
		return nil
	})
	w.nats.Stop()
	resp, err := n.Sessions.CancelRun(as(t, "ada"), &apiv1.CancelRunRequest{SessionId: s, RunId: posted.GetRunId()})
	if err != nil || resp.GetRun().GetOutcome() != "cancelled" {
		t.Fatalf("cancelled = %v, %v", resp.GetRun(), err)
	}
	w.nats.Start()
	w.await(s, "output", "message.end")
}

// killer terminates every connection to the database except its own, again and again, until it is stopped.
func (w *world) killer() (stop func()) {
	conn := w.admin()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		defer conn.Close(context.Background())
		for ctx.Err() == nil {
			begun := time.Now()
			_, err := conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> "+
				"pg_backend_pid()", w.database())
			if err != nil && ctx.Err() == nil {
				w.t.Errorf("cutting connections: %v", err)
				return
			}
			// Random pauses hit every statement sooner or later. They grow with the time of the statement, so that work
			// progresses on a busy machine too.
			pause := time.NewTimer(time.Duration(5+rand.IntN(40))*time.Millisecond + 10*time.Since(begun))
			<-pause.C
		}
	})
	return func() { cancel(); work.Wait() }
}

func (w *world) database() string {
	u, err := url.Parse(w.owner)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// admin connects to another database of the server, so that it can cut off this one.
func (w *world) admin() *pgx.Conn {
	w.t.Helper()
	u, err := url.Parse(w.owner)
	if err != nil {
		w.t.Fatal(err)
	}
	u.Path = "/postgres"
	return w.connect(u.String())
}

func (w *world) connect(url string) *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), url)
	if err != nil {
		w.t.Fatalf("connecting: %v", err)
	}
	return conn
}

// Even if database connections break at any moment, each run's steps are stored once and each run ends once. An
// accepted message is stored; any other is stored completely or not at all.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	const sessions = 4
	var ids []string
	for range sessions {
		ids = append(ids, n.session("ada"))
	}
	const steps = 15
	w.harness.expect(repeat(sessions, func(p *play) {
		p.model()
		for i := range int32(steps) {
			id := fmt.Sprint("c", i)
			p.turn(i+1, true, call(id, "file.read", `{}`))
			p.tool(i+1, id, "file.read", `{}`, "x")
			p.done(i + 1)
		}
		p.complete(steps)
	})...)
	var posted []string
	for _, s := range ids {
		posted = append(posted, n.post("ada", s, "Go.").GetRunId())
	}
	stop := w.killer()
	for i, s := range ids {
		run := n.run("ada", s, posted[i])
		if run.GetOutcome() != "completed" || len(run.GetSteps()) != steps {
			t.Errorf("run = %s with %d steps: %v", run.GetOutcome(), len(run.GetSteps()), run.GetError())
		}
	}
	accepted := map[string]int{}
	for range 30 {
		for _, s := range ids {
			content := "More."
			if _, err := n.Sessions.PostMessage(as(t, "ada"),
				&apiv1.PostMessageRequest{SessionId: s, Content: &content}); err == nil {
				accepted[s]++
			} else if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Conflict) {
				t.Errorf("posting: %v", err)
			}
		}
	}
	stop()
	for _, s := range ids {
		eventually(t, "the session is idle", func() error {
			if got := n.get("ada", s).GetState(); got != apiv1.SessionState_SESSION_STATE_IDLE {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
		asked, answered := 0, 0
		for _, m := range n.messages("ada", s) {
			if m.GetRole() == apiv1.MessageRole_MESSAGE_ROLE_OPERATOR {
				asked++
			} else {
				answered++
			}
		}
		if asked != answered || asked < 1+accepted[s] {
			t.Errorf("%d messages, %d answers, %d were accepted", asked, answered, 1+accepted[s])
		}
		eventually(t, "the frames are complete", func() error {
			events := w.channel(s, "events")
			if count(events, "run.started") != asked || count(events, "run.ended") != asked {
				return fmt.Errorf("%d runs in %q", asked, kinds(events))
			}
			return nil
		})
	}
}

// If the database stops after the commit of a message but before its answer, the message is stored, its run
// continues, and the session accepts the next message.
func TestStopsAfterTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tap := w.tap("Remember this.")
	n := w.start("a")
	s := n.session("ada")
	n.attach("ada", s, false)
	for _, content := range []string{"Remember this.", "And this."} {
		if run := n.run("ada", s, n.post("ada", s, content).GetRunId()); run.GetOutcome() != "completed" {
			t.Errorf("run = %v", run)
		}
	}
	if !tap.taken.Load() {
		t.Error("no answer was taken away")
	}
	if got := len(n.messages("ada", s)); got != 4 {
		t.Errorf("%d messages", got)
	}
}

// If the store refuses a change that is valid in memory, the session is dropped and loaded again, because the two
// may differ.
func TestRefusedChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	hold := n.attach("ada", s, false)
	admin := w.connect(w.owner)
	defer admin.Close(context.WithoutCancel(t.Context()))
	if _, err := admin.Exec(t.Context(), "alter table session_manager.sessions add constraint odd check (label <> "+
		"'odd') not valid"); err != nil {
		t.Fatal(err)
	}
	label := "odd"
	_, err := n.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{
		Id: s, Label: structpb.NewStringValue(label),
	})
	refused(t, err, fault.Internal)
	if got := hold.ended(); got.GetCode() != "server_shutdown" {
		t.Errorf("the hold ended with %v", got)
	}
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
}

// A message to a session whose row another transaction locks fails after a while, and delays no other session.
func TestLockedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.RunStarts = 1 })
	locked, other := n.session("ada"), n.session("ada")
	admin := w.connect(w.owner)
	defer admin.Close(context.WithoutCancel(t.Context()))
	watcher := w.connect(w.owner)
	defer watcher.Close(context.WithoutCancel(t.Context()))
	tx, err := admin.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "select from session_manager.sessions where id = $1 for update", locked)
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		content := "Hi."
		_, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: locked, Content: &content})
		failed <- err
	}()
	eventually(t, "the message waits for the lock", func() error {
		var waits bool
		err := watcher.QueryRow(t.Context(), "select exists (select from pg_stat_activity where $1::int = "+
			"any(pg_blocking_pids(pid)))",
			admin.PgConn().PID()).Scan(&waits)
		if err == nil && !waits && len(failed) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	n.run("ada", other, n.post("ada", other, "Hi.").GetRunId())
	refused(t, <-failed, fault.Unavailable)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.run("ada", locked, n.post("ada", locked, "Again.").GetRunId())
	if got := len(n.messages("ada", locked)); got != 2 {
		t.Errorf("%d messages", got)
	}
}

// Slow reading of one session's prompts does not delay other sessions, even when the run is prepared with the prompts
// of the previous message.
func TestSlowPromptsDelayNoOtherSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", func(c *Config) { c.RunStarts = 1 })
	slow, other := n.session("ada"), n.session("ada")
	n.run("ada", slow, n.post("ada", slow, "Hi.").GetRunId())
	held := w.tools.holdNext()
	answered := make(chan *apiv1.PostMessageResponse, 1)
	go func() {
		content := "Again."
		posted, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: slow, Content: &content})
		if err != nil {
			t.Error(err)
		}
		answered <- posted
	}()
	<-held
	n.run("ada", other, n.post("ada", other, "Hi.").GetRunId())
	if len(answered) > 0 {
		t.Error("the message did not wait for its prompts")
	}
	held <- struct{}{}
	n.run("ada", slow, (<-answered).GetRunId())
	if got := len(n.messages("ada", slow)); got != 4 {
		t.Errorf("%d messages", got)
	}
}

func repeat(n int, f func(*play)) []func(*play) {
	out := make([]func(*play), n)
	for i := range out {
		out[i] = f
	}
	return out
}

// While the database is unreachable requests fail with its name; once it is back all work continues, and an active
// run has lost no step. A-FAIL-02.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s, other := n.session("ada"), n.session("ada")
	n.attach("ada", s, false)
	away := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		<-away
		p.turn(1, true, call("c1", "file.write", `{}`))
		p.tool(1, "c1", "file.write", `{}`, "x")
		p.done(1)
		p.complete(1)
	})
	posted := n.post("ada", s, "Go.")
	admin := w.admin()
	defer admin.Close(context.Background())
	allow := func(yes bool) {
		for _, sql := range []string{
			fmt.Sprintf("alter database %s connection limit %d", w.database(), map[bool]int{true: -1, false: 0}[yes]),
			fmt.Sprintf("select pg_terminate_backend(pid) from pg_stat_activity where datname = '%s' and pid <> "+
				"pg_backend_pid()", w.database()),
		} {
			if _, err := admin.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	allow(false)
	close(away)
	content := "Hi."
	_, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: other, Content: &content})
	if f := refused(t, err, fault.Unavailable); f.Details["subsystem"] != "storage" {
		t.Errorf("details = %v", f.Details)
	}
	if err := n.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("ready: %v", err)
	}
	allow(true)
	if run := n.run("ada", s, posted.GetRunId()); run.GetOutcome() != "completed" || len(run.GetSteps()) != 1 {
		t.Errorf("run = %v", run)
	}
	n.run("ada", other, n.post("ada", other, "Hi.").GetRunId())
	w.await(s, "events", `session.state {"state":"idle"}`)
}
