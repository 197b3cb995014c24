package storetest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
	operatorsstore "kaged.dev/services/session-manager/internal/operators/store"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	sessionsstore "kaged.dev/services/session-manager/internal/sessions/store"
)

// million is the number of sessions of other operators in the large database. Each has a run with two steps, two
// messages, three audit records and a settled model call; ada has adas sessions of this kind in both databases.
const (
	million = 1_000_000
	adas    = 100
)

// fill has the rows of the sessions with the numbers $1 to $2. OWNER, ID and AT stand for expressions of the number i.
var fill = []string{
	`insert into projects (owner_user_id, id, path, state, registered_at, updated_at)
	 select distinct OWNER, 'music', '/music', 'ready', 1, 1 from generate_series($1::bigint, $2::bigint) i
	 on conflict do nothing`,
	`insert into sessions (id, owner_user_id, project_id, state, compiled_hash, project_path, next_ordinal, created_by,
	                       created_at, updated_at)
	 select ID, OWNER, 'music', 'idle', 'h', '/music', 3, OWNER, AT, AT from generate_series($1::bigint, $2::bigint) i`,
	`insert into messages (id, session_id, ordinal, role, content, run_id, created_at)
	 select ID || n, ID, n, case n when 1 then 'operator' else 'primary' end, repeat('words of a message ', 10), ID, AT
	 from generate_series($1::bigint, $2::bigint) i, generate_series(1, 2) n`,
	`insert into runs (id, session_id, owner_user_id, project_id, trigger_message_id, message_id, state, outcome,
	                   compiled_hash, created_at, started_at, ended_at)
	 select ID, ID, OWNER, 'music', ID || 1, ID || 2, 'completed', 'completed', 'h', AT, AT, AT
	 from generate_series($1::bigint, $2::bigint) i`,
	`insert into run_steps (run_id, step, part, body, created_at)
	 select ID, 1, n, convert_to(repeat('a step as bytes ', 12), 'UTF8'), AT
	 from generate_series($1::bigint, $2::bigint) i, generate_series(1, 2) n`,
	`insert into spend (run_id, call, session_id, owner_user_id, agent_path, model, reserved_nano_usd, reserved_tokens,
	                    reserved_calls, nano_usd, tokens, calls, at, settled_at)
	 select ID, 1, ID, OWNER, 'primary', 'm', 1, 1, 1, 1000, 100, 1, AT, AT
	 from generate_series($1::bigint, $2::bigint) i`,
	`insert into audit (id, ts, event_type, user_id, project_id, session_id, run_id)
	 select ID || n, AT, 'run.ended', OWNER, 'music', ID, ID
	 from generate_series($1::bigint, $2::bigint) i, generate_series(1, 3) n`,
}

// rows returns statements of fill for an owner and ids.
func rows(sql, owner, id string) string {
	return strings.NewReplacer("OWNER", owner, "ID", id, "AT", fmt.Sprint(filledFrom, "+ i * 1000")).Replace(sql)
}

// filledFrom is the time of the first session; each is a second later.
const filledFrom = 1_790_000_000_000

// open returns a database with the sessions of ada, and with others.
func open(b *testing.B, others int) *pgxpool.Pool {
	b.Helper()
	owner, app := pgtest.URLs(b)
	cfg := postgres.Config{OwnerURL: owner, URL: app}
	pool, err := postgres.Open(b.Context(), cfg, migrations.Files, migrations.Schema)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	conn, err := pgx.Connect(b.Context(), owner)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(b.Context()))
	exec := func(sql string, args ...any) {
		b.Helper()
		if _, err := conn.Exec(b.Context(), sql, args...); err != nil {
			b.Fatalf("%.60s: %v", sql, err)
		}
	}
	exec("set search_path = session_manager")
	exec("alter table messages disable trigger message_to_fill") // search is not measured
	exec("select audit_ensure_partitions($1, 2)", int64(filledFrom))
	began := time.Now()
	for _, sql := range fill {
		exec(rows(sql, "'ada'", "'A' || lpad(i::text, 25, '0')"), 1, adas)
		for at := 1; at <= others; at += 100_000 {
			exec(rows(sql, "'operator-' || i / 1000", "lpad(i::text, 26, '0')"), at, min(at+99_999, others))
		}
	}
	exec("vacuum analyze")
	var size int64
	if err := conn.QueryRow(b.Context(), "select pg_database_size(current_database())").Scan(&size); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d sessions of others: %d MB, filled in %s", others, size>>20, time.Since(began).Round(time.Second))
	return pool
}

// hot are the queries on the path of messages, sockets and lists, on session A1 of ada.
func hot(b *testing.B, pool *pgxpool.Pool) map[string]func(ctx context.Context) error {
	b.Helper()
	s, a, o := sessionsstore.NewSessions(pool), auditstore.NewAudit(pool), operatorsstore.NewAdmin(pool)
	id, other := fmt.Sprintf("A%025d", 1), fmt.Sprintf("A%025d", 2)
	taken, err := s.Take(b.Context(), id, lease.Holder{Instance: "i", Node: "n", Address: "unix:/i"}, 3_600_000)
	if err != nil {
		b.Fatal(err)
	}
	return map[string]func(ctx context.Context) error{
		"get a session":  func(ctx context.Context) error { return only(s.Session(ctx, "ada", id)) },
		"list sessions":  func(ctx context.Context) error { return only(s.List(ctx, "ada", "music", nil, 51)) },
		"load a session": func(ctx context.Context) error { return only(s.Load(ctx, id, false)) },
		"list messages": func(ctx context.Context) error {
			_, _, err := s.Messages(ctx, other, record.Part{NewestFirst: true}, 51)
			return err
		},
		"read its history":    func(ctx context.Context) error { return only(s.History(ctx, other, 0)) },
		"list its runs":       func(ctx context.Context) error { return only(s.Runs(ctx, other, nil, 51)) },
		"renew leases":        func(ctx context.Context) error { return only(s.Renew(ctx, "i", []string{id}, 3_600_000)) },
		"find abandoned runs": func(ctx context.Context) error { return only(s.Abandoned(ctx, 100)) },
		"count running": func(ctx context.Context) error {
			_, _, err := s.Running(ctx, "ada")
			return err
		},
		"status of a project": func(ctx context.Context) error {
			return only(s.Status(ctx, "ada", "music", filledFrom, 10))
		},
		"spend of an operator": func(ctx context.Context) error {
			_, _, err := s.Spending(ctx, "ada", filledFrom, 20)
			return err
		},
		"list audit": func(ctx context.Context) error {
			_, _, err := a.Query(ctx, audit.Query{Owner: "ada", Limit: 51})
			return err
		},
		"rules of an operator": func(ctx context.Context) error { return only(o.Rule(ctx, "ada")) },
		"begin and end a run":  func(ctx context.Context) error { return beginAndEnd(ctx, s, taken.Fence) },
	}
}

// only returns the error of a query.
func only[T any](_ T, err error) error { return err }

// beginAndEnd stores the two changes of the shortest run.
func beginAndEnd(ctx context.Context, s *sessionsstore.Sessions, f lease.Fence) error {
	said := record.Message{
		ID: ident.New(), SessionID: f.Session, Role: record.Operator, Content: "go", CreatedAt: filledFrom,
	}
	answer := record.Message{
		ID: ident.New(), SessionID: f.Session, Role: record.Primary, Content: "done", CreatedAt: filledFrom,
	}
	run := record.Run{
		ID: ident.New(), SessionID: f.Session, Owner: "ada", ProjectID: "music", State: record.RunRunning,
		CompiledHash: "h", TriggerMessageID: said.ID, MessageID: answer.ID, CreatedAt: filledFrom,
	}
	err := s.Apply(ctx, f, record.Change{
		At: filledFrom, NewRun: &run, Slot: &record.Slot{PerProject: 100, PerOperator: 100},
		Session: record.Patch{State: record.Running}, Messages: []record.Message{said},
	}, false)
	if err != nil {
		return err
	}
	return s.Apply(ctx, f, record.Change{
		At: filledFrom, EndRun: &record.RunEnd{RunID: run.ID, State: record.RunCompleted},
		Session: record.Patch{State: record.Idle}, Messages: []record.Message{answer},
	}, false)
}

// BenchmarkMillion measures the hot queries, in turns on a database with ada's sessions alone and on one with a million
// sessions more: the median and the 99th percentile of each, and how many times that of the small one it is. Filling
// takes minutes and some GB; KAGED_BENCH_SESSIONS is another number of sessions. Run it with -benchtime 1000x.
func BenchmarkMillion(b *testing.B) {
	others := million
	if text := os.Getenv("KAGED_BENCH_SESSIONS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("KAGED_BENCH_SESSIONS is %q and must be a number", text)
		}
		others = n
	}
	small, large := hot(b, open(b, 0)), hot(b, open(b, others))
	var names []string
	for name := range small {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			for range 20 { // warm
				for _, query := range []func(context.Context) error{small[name], large[name]} {
					if err := query(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				for i, query := range []func(context.Context) error{small[name], large[name]} {
					began := time.Now()
					if err := query(b.Context()); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			at := func(i, percent int) float64 {
				slices.Sort(took[i])
				return float64(took[i][(len(took[i])-1)*percent/100].Microseconds())
			}
			b.ReportMetric(0, "ns/op")
			for _, p := range []int{50, 99} {
				b.ReportMetric(at(0, p), fmt.Sprintf("small-p%d-µs", p))
				b.ReportMetric(at(1, p), fmt.Sprintf("large-p%d-µs", p))
				b.ReportMetric(at(1, p)/at(0, p), fmt.Sprintf("x-p%d", p))
			}
		})
	}
}
