package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/sessions/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

var (
	_ sessions.Store = (*store.Sessions)(nil)
	_ live.Store     = (*store.Sessions)(nil)
)

// kept is a store with one project.
func kept(t testing.TB) (*store.Sessions, *pgxpool.Pool) {
	t.Helper()
	pool := storetest.Open(t)
	music := projects.Project{
		Owner: "ada", ID: "music", Path: "/music", State: projects.Ready, RegisteredAt: 10,
		UpdatedAt: 11,
	}
	if _, _, err := projectsstore.NewProjects(pool).Save(t.Context(), music, "", nil,
		func(bool) []audit.Record { return nil }); err != nil {
		t.Fatal(err)
	}
	return store.NewSessions(pool), pool
}

func addOne(t testing.TB, s *store.Sessions, change func(*record.Session)) record.Session {
	t.Helper()
	n := record.Session{
		ID: ident.New(), Owner: "ada", ProjectID: "music", State: record.Idle, CompiledHash: "hash", ProjectPath: "/music",
		CreatedAt: 100, UpdatedAt: 100,
	}
	if change != nil {
		change(&n)
	}
	if err := s.Create(t.Context(), n, n.ResumeFrom, created(n)); err != nil {
		t.Fatal(err)
	}
	return n
}

func created(n record.Session) audit.Record {
	return audit.Record{EventType: "session.created", UserID: n.Owner, SessionID: n.ID}.Clean()
}

func take(t *testing.T, s *store.Sessions, session, instance string, ttl int64) lease.Taken {
	t.Helper()
	taken, err := s.Take(t.Context(), session, lease.Holder{
		Instance: instance, Node: "node of " + instance,
		Address: "at " + instance,
	}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func is[T any](v T) *T { return &v }

// A session reads back as it was created, and only to its owner.
func TestCreateSession(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, func(n *record.Session) { n.Label, n.Workspace = "one", "w" })
	got, err := s.Session(t.Context(), "ada", n.ID)
	n.PromptHashes = map[string]string{}
	if d := cmp.Diff(n, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, owner := range []string{"eve", ""} {
		if _, err := s.Session(t.Context(), owner, n.ID); !errors.Is(err, fault.NotFound) {
			t.Errorf("%q sees it: %v", owner, err)
		}
	}
	n.ProjectID = "gone"
	if err := s.Create(t.Context(), n, "", created(n)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a session of no project: %v", err)
	}
	n.ProjectID, n.ID = "music", ident.New()
	if err := s.Create(t.Context(), n, ident.New(), created(n)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a fork of nothing: %v", err)
	}
}

// aRun is a run of a session in three changes: its begin, a step with a result, and its end.
type aRun struct {
	run                record.Run
	turn               transcript.Turn
	begin, middle, end record.Change
}

func newRun(n record.Session) aRun {
	ttft := 3.0
	turn := transcript.Turn{Turn: contract.Turn{
		Step: 1, Blocks: []llm.Block{{Text: &llm.Text{Text: "a\x00b"}}, {Call: &llm.ToolCall{
			ID: "c", Name: "n",
			Input: "{}",
		}}},
		Stop: llm.StopToolUse, Usage: llm.Usage{Input: 1}, Stats: &llm.Stats{TTFT: &ttft}, Provider: "p", Model: "m",
	}}
	run := record.Run{
		ID: ident.New(), SessionID: n.ID, Owner: "ada", ProjectID: "music", TriggerMessageID: "m1", MessageID: "m2",
		State:        record.RunRunning,
		CompiledHash: "hash", PromptHashes: map[string]string{"p.md": "abc"}, CreatedAt: 200, StartedAt: 200,
		Cage: contract.CagePending,
	}
	begin := record.Change{
		At: 200, NewRun: &run, Session: record.Patch{
			State: record.Running, Model: is("p:m"), MaxSteps: is(int32(5)),
			Label: is("L"), BlockedReason: is("x"),
		},
		Messages: []record.Message{{ID: "m1", SessionID: n.ID, Role: record.Operator, Content: "Hi.", CreatedAt: 200}},
		Audit:    []audit.Record{audit.Record{EventType: "message.posted", UserID: "ada"}.Clean()},
		Outbox: []frames.Durable{{
			Frame: frames.Frame{Channel: frames.Events, Type: "run.started", Payload: []byte(`{"a":1}`)}, N: 7, ID: "r.started",
		}},
	}
	middle := record.Change{
		At: 210, Session: record.Patch{AuditHead: &contract.AuditHead{Hash: "h", Items: 4}}, CancelRequested: run.ID,
		Cage: &record.RunCage{RunID: run.ID, Status: contract.Caged},
		Steps: []record.StepHalf{
			{RunID: run.ID, Step: 1, Turn: &turn},
			{RunID: run.ID, Step: 1, Results: []llm.ToolResult{{CallID: "c", Name: "n", Content: "out\x00", IsError: true}}},
		},
	}
	why := fault.New(fault.Interrupted, "Cut\x00 off.").With("quote", "a\x00b").WithHTTP(503)
	end := record.Change{
		At: 220, Session: record.Patch{
			State: record.Idle, ResumeRun: &run.ID, BlockedReason: is(""), Model: is(""),
			MaxSteps: is(int32(0)),
		},
		EndRun: &record.RunEnd{
			RunID: run.ID, State: record.RunFailed, StopReason: llm.StopError, Error: why, Steps: 1,
			Totals: record.Totals{TokensIn: 3, TokensOut: 2, CostUSD: is(0.5)},
		},
		Messages: []record.Message{{
			ID: "m2", SessionID: n.ID, Role: record.Primary, Content: "a\x00b", Blocks: turn.Blocks, RunID: run.ID,
			CreatedAt: 220, Cost: is(0.5),
			Metadata: &transcript.Metadata{Provider: "p", Model: "m", StopReason: llm.StopError, ErrorMessage: "Cut\x00 off."},
		}},
	}
	return aRun{run: run, turn: turn, begin: begin, middle: middle, end: end}
}

// A change is applied as a whole, reads back, and is applied once however often it is sent.
func TestApply(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "i", 60_000).Fence
	a := newRun(n)
	for i, c := range []record.Change{a.begin, a.middle, a.end} {
		if err := s.Apply(t.Context(), f, c, false); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		if i < 2 {
			want := []contract.CageStatus{contract.CagePending, contract.Caged}[i]
			if at, err := s.Session(t.Context(), "ada", n.ID); err != nil || at.Cage != want {
				t.Errorf("the cage is %q after change %d, %v", at.Cage, i, err)
			}
		}
		if i == 0 {
			loaded, err := s.Load(t.Context(), n.ID)
			if err != nil || loaded.Run == nil || loaded.Run.ID != a.run.ID || loaded.Tries != 1 || len(loaded.Outbox) != 1 ||
				string(loaded.Outbox[0].Payload) != `{"a":1}` || loaded.Session.CurrentMessage != "m1" {
				t.Errorf("loaded = %+v, %v", loaded, err)
			}
		}
	}
	said, err := s.Session(t.Context(), "ada", n.ID)
	if d := cmp.Diff(a.end.On(a.middle.On(a.begin.On(n))), said, cmpopts.EquateEmpty()); d != "" || err != nil {
		t.Errorf("the store has another session than the changes say: %s %v", d, err)
	}
	loaded, err := s.Load(t.Context(), n.ID)
	if err != nil || loaded.Run != nil || loaded.Resume == nil || loaded.Resume.ID != a.run.ID ||
		loaded.Resume.CancelRequestedAt != 210 || loaded.Tries != 1 {
		t.Errorf("what is to go on is loaded as %+v, %v", loaded, err)
	}
	for _, c := range []record.Change{a.begin, a.middle} {
		if err := s.Apply(t.Context(), f, c, true); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if err := s.Apply(t.Context(), f, a.begin, false); !errors.Is(err, fault.Internal) {
		t.Errorf("the same ids in another change: %v", err)
	}
	a.check(t, s, n.ID)
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); strings.Count(got, "message.posted") != 1 {
		t.Errorf("recorded %s", got)
	}
}

// check reads back what the changes have stored: the session, the run, its step and the messages.
func (a aRun) check(t *testing.T, s *store.Sessions, session string) {
	t.Helper()
	got, err := s.Session(t.Context(), "ada", session)
	if err != nil || got.State != record.Idle || got.Label != "L" || got.Overrides != (record.Overrides{}) ||
		got.BlockedReason != "" || got.UpdatedAt != 220 ||
		got.MessageCount != 2 || got.AuditHead != (contract.AuditHead{Hash: "h", Items: 4}) || got.CurrentRun != "" ||
		*got.Totals.CostUSD != 0.5 ||
		got.PromptHashes["p.md"] != "abc" {
		t.Errorf("session = %+v, %v", got, err)
	}
	r, err := s.Run(t.Context(), session, a.run.ID)
	if err != nil || r.State != record.RunFailed || r.Error.Code != fault.Interrupted || r.Error.HTTP != 503 ||
		r.Error.Details["quote"] != "a\uFFFDb" ||
		r.Totals.TokensIn != 3 || r.EndedAt != 220 || r.StopReason != llm.StopError || r.Cage != contract.Caged {
		t.Errorf("run = %+v, %v", r, err)
	}
	steps, err := s.Steps(t.Context(), a.run.ID, "")
	a.turn.At = 210
	want := []transcript.Step{{Turn: a.turn, Results: []llm.ToolResult{{
		CallID: "c", Name: "n", Content: "out\x00",
		IsError: true,
	}}, Done: true}}
	if d := cmp.Diff(want, steps); d != "" || err != nil {
		t.Error(d, err)
	}
	messages, err := s.History(t.Context(), session, 0)
	if err != nil || len(messages) != 2 || messages[1].Ordinal != 2 || messages[1].Content != "a\uFFFDb" ||
		messages[1].Blocks[0].Text.Text != "a\uFFFDb" ||
		messages[1].Metadata.ErrorMessage != "Cut\uFFFD off." || *messages[1].Cost != 0.5 {
		t.Errorf("messages = %+v, %v", messages, err)
	}
}

// Only the holder of the lease changes a session, and a refused change leaves no row.
func TestFence(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	old := take(t, s, n.ID, "old", 0).Fence
	fresh := take(t, s, n.ID, "new", 60_000)
	if fresh.Epoch != old.Epoch+1 || fresh.Before != "old" {
		t.Errorf("taken = %+v after %+v", fresh, old)
	}
	change := record.Change{At: 1, Session: record.Patch{Label: is("mine")}}
	for name, f := range map[string]lease.Fence{
		"replaced": old, "another epoch": {Session: n.ID, Holder: "new", Epoch: old.Epoch}, "nobody": {Session: n.ID},
	} {
		if err := s.Apply(t.Context(), f, change, false); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Apply(t.Context(), f, change, true); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s again: %v", name, err)
		}
		if err := s.Held(t.Context(), f); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s holds: %v", name, err)
		}
	}
	if err := s.Held(t.Context(), fresh.Fence); err != nil {
		t.Error(err)
	}
	got, _ := s.Session(t.Context(), "ada", n.ID)
	if got.Label != "" {
		t.Errorf("label = %q", got.Label)
	}
	if err := s.Apply(t.Context(), fresh.Fence, change, false); err != nil {
		t.Error(err)
	}
	if got, _ := s.Session(t.Context(), "ada", n.ID); got.Label != "mine" {
		t.Errorf("label = %q", got.Label)
	}
}

// A lease is taken by one process at a time, kept by renewing, given up cleanly or with its node, and its epoch never
// goes back.
func TestLeases(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	first := take(t, s, n.ID, "a", 60_000)
	if first.Epoch != 1 || first.Before != "" {
		t.Errorf("taken = %+v", first)
	}
	_, err := s.Take(t.Context(), n.ID, lease.Holder{Instance: "b", Node: "y", Address: "at b"}, 60_000)
	if !errors.Is(err, fault.StaleLease) || fault.From(err).Details["holder"] != "at a" {
		t.Errorf("taken twice: %v", err)
	}
	if again := take(t, s, n.ID, "a", 60_000); again.Epoch != 2 || again.Before != "a" {
		t.Errorf("taken again = %+v", again)
	}
	held, err := s.Renew(t.Context(), "a", []string{n.ID, "other"}, 60_000)
	if d := cmp.Diff([]string{n.ID}, held); d != "" || err != nil {
		t.Error(d, err)
	}
	if err := s.Release(t.Context(), []lease.Fence{first.Fence}); err != nil {
		t.Error(err)
	}
	if _, err := s.Take(t.Context(), n.ID, lease.Holder{Instance: "b"}, 60_000); !errors.Is(err, fault.StaleLease) {
		t.Errorf("an old fence released it: %v", err)
	}
	if err := s.Release(t.Context(), []lease.Fence{{Session: n.ID, Holder: "a", Epoch: 2}}); err != nil {
		t.Error(err)
	}
	if third := take(t, s, n.ID, "b", 60_000); third.Epoch != 3 || third.Before != "" {
		t.Errorf("taken after a release = %+v", third)
	}
	if got, err := s.ReleaseNode(t.Context(), "node of b", "b"); got != 0 || err != nil {
		t.Errorf("its own leases went: %d, %v", got, err)
	}
	if got, err := s.ReleaseNode(t.Context(), "node of b", "c"); got != 1 || err != nil {
		t.Errorf("released %d, %v", got, err)
	}
	if held, _ := s.Renew(t.Context(), "b", []string{n.ID}, 60_000); len(held) != 0 {
		t.Error("a dead instance renewed its lease")
	}
	if fourth := take(t, s, n.ID, "c", 60_000); fourth.Epoch != 4 || fourth.Before == "" {
		t.Errorf("taken from the dead = %+v", fourth)
	}
}

// Leases are renewed while a change of one of the sessions is under way, so that one that takes long costs no session
// its holder;
// and a lease that has run out is not taken from a change that is under way.
func TestRenewDuringAChange(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	busy, other := addOne(t, s, nil), addOne(t, s, nil)
	f := take(t, s, busy.ID, "a", 0).Fence
	take(t, s, other.ID, "a", 0)
	change, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer change.Rollback(context.WithoutCancel(t.Context()))
	if _, err := change.Exec(t.Context(), "select assert_lease($1, $2, $3)", f.Session, f.Holder, f.Epoch); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := s.Take(t.Context(), busy.ID, lease.Holder{Instance: "b", Address: "at b"}, 60_000)
		taken <- err
	}()
	for waits := false; !waits; {
		err := pool.QueryRow(t.Context(),
			"select exists (select from pg_stat_activity where $1::int = any(pg_blocking_pids(pid)))",
			change.Conn().PgConn().PID()).Scan(&waits)
		if err != nil || len(taken) > 0 {
			t.Fatal("the lease was taken from a change that is under way", err)
		}
	}
	held, err := s.Renew(t.Context(), "a", []string{busy.ID, other.ID}, 60_000)
	slices.Sort(held)
	if d := cmp.Diff([]string{busy.ID, other.ID}, held); d != "" || err != nil { // ids are in the order of their making
		t.Error(d, err)
	}
	if _, err := s.Take(t.Context(), other.ID, lease.Holder{Instance: "b"}, 60_000); !errors.Is(err, fault.StaleLease) {
		t.Errorf("the other lease was not renewed: %v", err)
	}
	if err := change.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; !errors.Is(err, fault.StaleLease) {
		t.Errorf("a lease that was renewed meanwhile was taken: %v", err)
	}
}

// Of many simultaneous takers of a lease one gets it.
func TestTakeAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	var work sync.WaitGroup
	won := make(chan string, 16)
	for i := range 16 {
		work.Go(func() {
			by := lease.Holder{Instance: fmt.Sprint("i", i), Node: "n", Address: fmt.Sprint("at ", i)}
			if _, err := s.Take(t.Context(), n.ID, by, 60_000); err == nil {
				won <- by.Instance
			} else if !errors.Is(err, fault.StaleLease) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if len(won) != 1 {
		t.Errorf("%d got it", len(won))
	}
}

// A run at work without a holder is found, and one that is to go on in another until that begins or its session ends;
// one with a holder, and one that waits for a slot, is not.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	begin := func(instance string, ttl int64, state record.RunState) string {
		n := addOne(t, s, nil)
		f := take(t, s, n.ID, instance, 60_000).Fence
		run := record.Run{
			ID: ident.New(), SessionID: n.ID, Owner: "ada", ProjectID: "music", State: state,
			CompiledHash: "h", CreatedAt: 1,
		}
		if err := s.Apply(t.Context(), f, record.Change{NewRun: &run, Session: record.Patch{State: record.Running}},
			false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Renew(t.Context(), instance, []string{n.ID}, ttl); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	begin("a", 60_000, record.RunRunning)
	begin("a", 0, record.RunPending)
	lost := begin("a", 0, record.RunRunning)
	resumable := func(next ...record.Change) string {
		n := addOne(t, s, nil)
		f := take(t, s, n.ID, "a", 0).Fence
		for _, c := range append([]record.Change{{Session: record.Patch{ResumeRun: is("r")}}}, next...) {
			if err := s.Apply(t.Context(), f, c, false); err != nil {
				t.Fatal(err)
			}
			n = c.On(n)
			if got, err := s.Session(t.Context(), "ada", n.ID); err != nil || got.ResumeRun != n.ResumeRun {
				t.Errorf("%q is to go on instead of %q, %v", got.ResumeRun, n.ResumeRun, err)
			}
		}
		return n.ID
	}
	waits := resumable()
	resumable(record.Change{Session: record.Patch{State: record.Ended}})
	resumable(record.Change{NewRun: &record.Run{ID: ident.New(), SessionID: waits, State: record.RunCompleted}})
	resumable(record.Change{Session: record.Patch{ResumeRun: is("")}})
	ids, err := s.Abandoned(t.Context(), 10)
	if d := cmp.Diff([]string{lost, waits}, ids); d != "" || err != nil {
		t.Error(d, err)
	}
}

// Published numbers never go back, and a frame is struck out once and may be struck out twice.
func TestProgress(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	d := frames.Durable{
		Frame: frames.Frame{Channel: frames.Output, Type: "message.end", Payload: []byte("{}")}, N: 3,
		ID: "x",
	}
	if err := s.Apply(t.Context(), f, record.Change{Outbox: []frames.Durable{d}}, false); err != nil {
		t.Fatal(err)
	}
	for _, p := range []frames.Progress{
		{Session: n.ID, Acked: [2]int64{5, 0}},
		{Session: n.ID, Acked: [2]int64{4, 9}, Published: []int64{3}},
		{Session: n.ID, Published: []int64{3}},
		{Session: n.ID},
	} {
		if err := s.SaveProgress(t.Context(), []frames.Progress{p}); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := s.Load(t.Context(), n.ID)
	if err != nil || loaded.Stored != [2]int64{5, 9} || len(loaded.Outbox) != 0 || loaded.Run != nil {
		t.Errorf("loaded = %+v, %v", loaded, err)
	}
	if _, err := s.Load(t.Context(), "none"); !errors.Is(err, fault.NotFound) {
		t.Errorf("no session: %v", err)
	}
}

// Pages of messages end where they would become too large, but never before the first.
func TestMessagePages(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	var c record.Change
	for i, size := range []int{10, 3 << 20, 2 << 20, 10, 5 << 20, 10} {
		c.Messages = append(c.Messages, record.Message{
			ID: fmt.Sprint("m", i), SessionID: n.ID, Role: record.Operator, Content: strings.Repeat("x",
				size), CreatedAt: int64(i),
		})
	}
	err := s.Apply(t.Context(), f, c, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		newestFirst bool
		want        []string
	}{{false, []string{"m0m1", "m2m3", "m4", "m5"}}, {true, []string{"m5", "m4", "m3m2", "m1m0"}}} {
		var pages []string
		part := record.Part{NewestFirst: c.newestFirst}
		for more := true; more; {
			var list []record.Message
			if list, more, err = s.Messages(t.Context(), n.ID, part, 3); err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			var ids string
			for _, m := range list {
				ids += m.ID
				part.After, part.Before = m.Ordinal, 0
				if c.newestFirst {
					part.After, part.Before = 0, m.Ordinal
				}
			}
			pages = append(pages, ids)
		}
		if d := cmp.Diff(c.want, pages); d != "" {
			t.Error(d)
		}
	}
	if before, err := s.TurnsBefore(t.Context(), n.ID, 4); before != 3 || err != nil {
		t.Errorf("%d turns before the fourth, %v", before, err)
	}
	if at, err := s.Ordinal(t.Context(), n.ID, "m3"); at != 4 || err != nil {
		t.Errorf("ordinal = %d, %v", at, err)
	}
	if _, err := s.Ordinal(t.Context(), "other", "m3"); !errors.Is(err, fault.NotFound) {
		t.Errorf("in another session: %v", err)
	}
}

// Lists go on where they were left, also among equals.
func TestLists(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	var ids []string
	for range 5 {
		ids = append(ids, addOne(t, s, nil).ID)
	}
	addOne(t, s, func(n *record.Session) { n.Owner = "ada"; n.CreatedAt = 50 })
	var got []string
	var after *page.Key
	for {
		list, err := s.List(t.Context(), "ada", "music", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, n := range list {
			got = append(got, n.ID)
			after = &page.Key{N: n.CreatedAt, S: n.ID}
		}
	}
	if len(got) != 6 || got[0] != ids[4] || got[4] != ids[0] {
		t.Errorf("listed %v of %v", got, ids)
	}
	open, err := s.Open(t.Context(), "ada", "music")
	if err != nil || len(open) != 6 {
		t.Errorf("open = %v, %v", open, err)
	}
	if list, err := s.Runs(t.Context(), ids[0], nil, 5); err != nil || len(list) != 0 {
		t.Errorf("runs = %v, %v", list, err)
	}
}

// A fork holds copies of the messages that were not taken back, in their order.
func TestForkCopies(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	var c record.Change
	for i := range 4 {
		c.Messages = append(c.Messages, record.Message{
			ID: fmt.Sprint("m",
				i), SessionID: n.ID, Role: record.Operator, Content: fmt.Sprint(i), RunID: "r", CreatedAt: int64(i),
		})
	}
	if err := s.Apply(t.Context(), f, c, false); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "update messages set superseded = true where id = 'm1'"); err != nil {
		t.Fatal(err)
	}
	fork := addOne(t, s, func(fork *record.Session) { fork.ResumeFrom = n.ID })
	list, err := s.History(t.Context(), fork.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for i, m := range list {
		said = append(said, m.Content)
		if m.Ordinal != int64(i)+1 || m.RunID != "" || m.CreatedAt == 1 {
			t.Errorf("message %d = %+v", i, m)
		}
	}
	if d := cmp.Diff([]string{"0", "2", "3"}, said); d != "" {
		t.Error(d)
	}
	got, _ := s.Session(t.Context(), "ada", fork.ID)
	if got.MessageCount != 3 || got.ResumeFrom != n.ID {
		t.Errorf("fork = %+v", got)
	}
	g := take(t, s, fork.ID, "a", 60_000).Fence
	next := record.Change{Messages: []record.Message{{
		ID: "own", SessionID: fork.ID, Role: record.Operator,
		Content: "own",
	}}}
	if err := s.Apply(context.WithoutCancel(t.Context()), g, next, false); err != nil {
		t.Error(err)
	}
	if at, _ := s.Ordinal(t.Context(), fork.ID, "own"); at != 4 {
		t.Errorf("its first own message is number %d", at)
	}
}
