package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/sessions/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

// kept returns a store with one project.
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

// aRun is a run of a session in three changes: its beginning, a step with a result, and its end.
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

// check reads back the stored changes: the session, the run, its step and the messages.
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
