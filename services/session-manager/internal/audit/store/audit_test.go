package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/database/migrations"
)

// open returns an empty database for the test.
func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, migrations.Files, migrations.Schema)
}

func newAudit(t *testing.T) (*store.Audit, *pgxpool.Pool) {
	t.Helper()
	pool := open(t)
	a := store.NewAudit(pool)
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, pool
}

func appendAll(t *testing.T, a *store.Audit, records ...audit.Record) {
	t.Helper()
	if err := a.Record(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// types returns the types of all entries of a query.
func types(t *testing.T, a *store.Audit, q audit.Query) string {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	records, _, err := a.Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range records {
		list = append(list, r.EventType)
	}
	return strings.Join(list, " ")
}

// An entry is unchanged after it is stored and read. A-AUDIT-03.
func TestAuditRoundTrip(t *testing.T) {
	a, _ := newAudit(t)
	whole := audit.Record{
		ID: ident.New(), TS: 1716300000000, EventType: "tool.called", UserID: "ada", RequestID: "r", ProjectID: "p",
		SessionID: "s",
		RunID:     "run", AgentPath: "primary", Payload: map[string]any{
			"tool": "file.read", "n": 1.5, "nested": map[string]any{"a": []any{"b", nil}},
		},
	}
	appendAll(t, a, whole)
	got, more, err := a.Query(t.Context(), audit.Query{Owner: "ada", Limit: 10})
	if err != nil || more {
		t.Fatal(err, more)
	}
	if d := cmp.Diff([]audit.Record{whole}, got); d != "" {
		t.Error(d)
	}
}

// firstRequest returns the record of a session's first request, with a list of tools.
func firstRequest(ts int64, user, description string) audit.Record {
	return audit.Record{
		ID: ident.New(), TS: ts, EventType: "agent.pre_generation", UserID: user, Payload: map[string]any{
			"step": 1.0, "new_items": []any{
				map[string]any{"kind": "params"},
				map[string]any{"kind": "system", "system": []any{user}},
				map[string]any{"kind": "tools", "tools": []any{
					map[string]any{"name": "file.read", "description": strings.Repeat(description, 500), "schema": nil},
				}},
				map[string]any{"kind": "message"},
			},
		},
	}
}

// The list of tools of many sessions is stored once in a month, and each record is read whole: also one of an earlier
// version, which holds its list, one with a short list, and one of another type.
func TestToolsAreStoredOnce(t *testing.T) {
	const may, june = 1716300000000, 1718978400000
	a, pool := newAudit(t)
	short := firstRequest(may+4, "ada", "")
	other := firstRequest(may+5, "ada", "A tool.")
	other.EventType = "tool.called"
	records := []audit.Record{
		firstRequest(may, "ada", "A tool."), firstRequest(may+1, "ada", "A tool."), firstRequest(may+2, "ada", "Another."),
		short, other, firstRequest(june, "ada", "A tool."),
	}
	appendAll(t, a, records[0], records[2], records[3], records[4])
	appendAll(t, a, records[1], records[5])
	old := firstRequest(june+1, "ada", "A tool.")
	whole, err := json.Marshal(old.Payload)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(t.Context(), "insert into audit (id, ts, event_type, user_id, payload) values ($1, $2, $3, $4, $5)",
		old.ID, old.TS, old.EventType, old.UserID, whole)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := a.Query(t.Context(), audit.Query{Owner: "ada", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]audit.Record{
		old, records[5], records[4], records[3], records[2], records[1], records[0],
	}, got); d != "" {
		t.Error(d)
	}
	var parts string
	if err := pool.QueryRow(t.Context(), `select string_agg(m || ' ' || n, ', ' order by m)
		from (select left(id, 6) as m, count(*) as n from audit_parts group by 1) p`).Scan(&parts); err != nil {
		t.Fatal(err)
	}
	if parts != "202405 2, 202406 1" {
		t.Errorf("stored parts by month: %s", parts)
	}
	var inline int
	if err := pool.QueryRow(t.Context(),
		"select count(*) from audit where octet_length(payload::text) > 2000").Scan(&inline); err != nil || inline != 2 {
		t.Errorf("%d records hold their tools, want that of the earlier version and that of another type: %v", inline, err)
	}
}

// Each parameter restricts the answer. An operator gets their own entries and those without an operator. A-AUDIT-01,
// A-AUDIT-02.
func TestAuditFilters(t *testing.T) {
	a, _ := newAudit(t)
	appendAll(t, a,
		audit.Record{TS: 1, EventType: "auth.login", UserID: "ada"},
		audit.Record{TS: 2, EventType: "auth.failed"},
		audit.Record{TS: 3, EventType: "project.loaded", UserID: "ada", ProjectID: "p"},
		audit.Record{TS: 4, EventType: "project.loaded", UserID: "eve", ProjectID: "p"},
		audit.Record{TS: 5, EventType: "tool.called", UserID: "ada", ProjectID: "p", SessionID: "s"},
		audit.Record{TS: 6, EventType: "tool_called", UserID: "ada", ProjectID: "q", SessionID: "z"},
		audit.Record{TS: 7, EventType: "per%cent", UserID: "ada"},
	)
	for _, c := range []struct {
		q    audit.Query
		want string
	}{
		{audit.Query{Owner: "ada"}, "per%cent tool_called tool.called project.loaded auth.failed auth.login"},
		{audit.Query{Owner: "eve"}, "project.loaded auth.failed"},
		{audit.Query{}, "auth.failed"},
		{audit.Query{Owner: "ada", Since: 3, Until: 6}, "tool.called project.loaded"},
		{audit.Query{Owner: "ada", ProjectID: "p"}, "tool.called project.loaded"},
		{audit.Query{Owner: "ada", ProjectID: "none"}, ""},
		{audit.Query{Owner: "ada", SessionID: "z"}, "tool_called"},
		{audit.Query{Owner: "ada", Types: []string{"auth.*"}}, "auth.failed auth.login"},
		{audit.Query{Owner: "ada", Types: []string{"*.loaded", "auth.login"}}, "project.loaded auth.login"},
		{audit.Query{Owner: "ada", Types: []string{"tool_called"}}, "tool_called"},
		{audit.Query{Owner: "ada", Types: []string{"per%"}}, ""},
		{audit.Query{Owner: "ada", Types: []string{"per%cent", `\`}}, "per%cent"},
		{audit.Query{Owner: "ada", Types: []string{"*"}, Limit: 1}, "per%cent"},
	} {
		if got := types(t, a, c.q); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
}

// A walk over all pages returns every entry once, newest first, for any number of entries in the same millisecond.
// A-WIRE-PAGE-01.
func TestAuditPages(t *testing.T) {
	a, _ := newAudit(t)
	var want []string
	var records []audit.Record
	for i := range 25 {
		r := audit.Record{ID: ident.New(), TS: int64(1000 + i/10), EventType: "e", UserID: []string{"", "ada"}[i%2]}
		records = append(records, r)
		want = append([]string{r.ID}, want...)
	}
	appendAll(t, a, records...)
	var got []string
	q := audit.Query{Owner: "ada", Limit: 7}
	for pages := 1; ; pages++ {
		list, more, err := a.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			got = append(got, r.ID)
		}
		if !more {
			if pages != 4 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		last := list[len(list)-1]
		q.After = &page.Key{N: last.TS, S: last.ID}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A page of large entries ends early, but never empty.
func TestAuditPageBytes(t *testing.T) {
	a, _ := newAudit(t)
	big := map[string]any{"text": strings.Repeat("x", 700_000)}
	huge := map[string]any{"text": strings.Repeat("y", 3<<20)}
	appendAll(t, a, audit.Record{TS: 1, EventType: "huge", Payload: huge},
		audit.Record{TS: 2, EventType: "big", Payload: big},
		audit.Record{TS: 3, EventType: "big", Payload: big})
	for _, c := range []struct {
		after *page.Key
		want  int
		more  bool
	}{{nil, 1, true}, {&page.Key{N: 2}, 1, false}, {&page.Key{N: 3}, 1, true}} {
		list, more, err := a.Query(t.Context(), audit.Query{Limit: 10, After: c.after})
		if err != nil || len(list) != c.want || more != c.more {
			t.Errorf("after %v: %d entries, more %v, %v", c.after, len(list), more, err)
		}
	}
}

// No content of a record makes its write fail.
func TestAuditHostilePayload(t *testing.T) {
	a, _ := newAudit(t)
	deep := map[string]any{}
	for range 5000 {
		deep = map[string]any{"d": deep}
	}
	appendAll(t, a, audit.Record{
		EventType: "e\x00", UserID: "\xff", ProjectID: "p\x00", TS: math.MaxInt64,
		Payload: map[string]any{
			"nul\x00key": "a\x00b", "bad": "\xc3\x28", "inf": math.Inf(1), "huge": json.Number("1e999999"),
			"long": strings.Repeat("😀", 3<<20),
			"deep": deep, "raw": json.RawMessage(`{"s":"\u0000\udc00"}`),
		},
	}, audit.Record{EventType: "before time", TS: -5})
	if got := types(t, a, audit.Query{Owner: "\uFFFD"}); got != "e\uFFFD before time" {
		t.Errorf("stored %q", got)
	}
}

// A batch is stored with the caller's transaction or not at all.
func TestAuditInTransaction(t *testing.T) {
	a, pool := newAudit(t)
	boom := errors.New("boom")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := store.Append(t.Context(), tx, []audit.Record{{EventType: "a"}, {EventType: "b"}}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || types(t, a, audit.Query{}) != "" {
		t.Errorf("rolled back: %v, stored %q", err, types(t, a, audit.Query{}))
	}
	if err := store.Append(t.Context(), pool, nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

// The services' role can neither change nor remove an entry, in the table or in a partition. A-AUDIT-04.
func TestAuditIsAppendOnly(t *testing.T) {
	a, pool := newAudit(t)
	appendAll(t, a, audit.Record{EventType: "e"})
	month := "audit_" + time.Now().UTC().Format("200601")
	for _, table := range []string{"audit", "audit_default", month} {
		for _, statement := range []string{"update %s set event_type = 'x'", "delete from %s", "truncate %s"} {
			_, err := pool.Exec(t.Context(), fmt.Sprintf(statement, table))
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "42501" {
				t.Errorf("%s: %v", fmt.Sprintf(statement, table), err)
			}
		}
	}
	if got := types(t, a, audit.Query{}); got != "e" {
		t.Errorf("left: %q", got)
	}
}

// If all services use one role, a trigger still prevents changes of entries.
func TestAuditRefusesTheOwner(t *testing.T) {
	owner, _ := pgtest.URLs(t)
	pool, err := postgres.Open(t.Context(), postgres.Config{OwnerURL: owner}, migrations.Files, migrations.Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	appendAll(t, store.NewAudit(pool), audit.Record{EventType: "e"}, firstRequest(1716300000000, "ada", "A tool."))
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	for _, statement := range []string{
		"update session_manager.audit set event_type = 'x'", "delete from session_manager.audit_default",
		"update session_manager.audit_parts set body = '{}'", "delete from session_manager.audit_parts",
	} {
		if _, err := conn.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A month's entries are in its partition, which is created before. Creation may be repeated, and several processes may
// create it at once.
func TestAuditPartitions(t *testing.T) {
	a, pool := newAudit(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- a.Prepare(t.Context()) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	appendAll(t, a, audit.Record{EventType: "now"}, audit.Record{
		EventType: "soon", TS: time.Now().AddDate(0, 2, 0).UnixMilli(),
	},
		audit.Record{EventType: "long ago", TS: 1})
	rows, err := pool.Query(t.Context(), "select event_type, tableoid::regclass::text from audit order by ts desc")
	if err != nil {
		t.Fatal(err)
	}
	where, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s string, err error) {
		var event, table string
		err = row.Scan(&event, &table)
		return event + " in " + table, err
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	soon := now.AddDate(0, 2, 0)
	want := []string{
		"soon in audit_" + soon.Format("200601"), "now in audit_" + now.Format("200601"), "long ago in audit_default",
	}
	if d := cmp.Diff(want, where); d != "" {
		t.Error(d)
	}
}

// The entries of a month without a partition are in the default partition, and its creation later has no bad effect.
func TestAuditLatePartition(t *testing.T) {
	pool := open(t)
	a := store.NewAudit(pool)
	appendAll(t, a, audit.Record{EventType: "early"})
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendAll(t, a, audit.Record{EventType: "late"})
	if got := types(t, a, audit.Query{}); got != "late early" {
		t.Errorf("stored %q", got)
	}
}

// An unreachable database is reported as unavailable and not as a defect.
func TestDatabaseAway(t *testing.T) {
	a, pool := newAudit(t)
	pool.Close()
	if err := a.Record(t.Context(), []audit.Record{{EventType: "e"}}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, _ := newAudit(t)
	if _, _, err := b.Query(ctx, audit.Query{Limit: 1}); !errors.Is(err, fault.Cancelled) {
		t.Errorf("cancelled: %v", err)
	}
}
