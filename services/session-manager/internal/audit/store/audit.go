// Package store stores the append-only record in Postgres. [Append] uses the transaction of another context.
package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/audit/store/db"
)

// auditPageBytes is the maximum total size of the payloads of one page, unless the first payload alone is larger.
const auditPageBytes = 1 << 20

// auditMonths is the number of months with partitions: the present month and the coming ones.
const auditMonths = 3

// Audit stores the append-only record. It implements [audit.Store].
type Audit struct{ db database.DB }

// NewAudit returns the record in db.
func NewAudit(db database.DB) *Audit { return &Audit{db} }

// Prepare creates the partitions of this month and the coming ones. It is called at the start and may be called at any
// time. Records of a month without a partition go to the default one.
func (a *Audit) Prepare(ctx context.Context) error {
	err := db.New(a.db).EnsureAuditPartitions(ctx, time.Now().UnixMilli(), auditMonths)
	return database.Fail(err, "prepare audit partitions")
}

// Record implements [audit.Store].
func (a *Audit) Record(ctx context.Context, records []audit.Record) error {
	return Append(ctx, a.db, records)
}

// Append appends records in the caller's transaction, with one statement. It fails only if the database does, because
// it cleans and limits a record's content first. It sets a missing id or time of a record.
func Append(ctx context.Context, q database.Querier, records []audit.Record) error {
	if len(records) == 0 {
		return nil
	}
	var p db.AppendAuditParams
	parts := map[string][]byte{}
	for _, r := range records {
		r = r.Clean()
		payload, part := r.Apart()
		if part.ID != "" {
			parts[part.ID] = part.Body
		}
		p.Ids = append(p.Ids, r.ID)
		p.Tss = append(p.Tss, r.TS)
		p.EventTypes = append(p.EventTypes, r.EventType)
		p.UserIds = append(p.UserIds, r.UserID)
		p.RequestIds = append(p.RequestIds, r.RequestID)
		p.ProjectIds = append(p.ProjectIds, r.ProjectID)
		p.SessionIds = append(p.SessionIds, r.SessionID)
		p.RunIds = append(p.RunIds, r.RunID)
		p.AgentPaths = append(p.AgentPaths, r.AgentPath)
		p.Payloads = append(p.Payloads, string(audit.Encode(payload, audit.MaxPayload)))
		p.Parts, p.PartsAt = append(p.Parts, part.ID), append(p.PartsAt, int32(part.At))
	}
	// In the same order in each transaction: one that adds a part waits for another that adds it.
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		if err := db.New(q).AppendAuditPart(ctx, id, string(parts[id])); err != nil {
			return database.Fail(err, "append a part of audit")
		}
	}
	return database.Fail(db.New(q).AppendAudit(ctx, p), "append audit")
}

// Query implements [audit.Store].
func (a *Audit) Query(ctx context.Context, q audit.Query) ([]audit.Record, bool, error) {
	text, args := auditSQL(q)
	rows, err := a.db.Query(ctx, text, args...)
	if err != nil {
		return nil, false, database.Fail(err, "query audit")
	}
	total := 0
	records, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Record, error) {
		var r audit.Record
		var payload []byte
		err := row.Scan(&r.ID, &r.TS, &r.EventType, &r.UserID, &r.RequestID, &r.ProjectID, &r.SessionID, &r.RunID,
			&r.AgentPath, &payload, &total)
		if err == nil && json.Unmarshal(payload, &r.Payload) != nil {
			r.Payload = map[string]any{"unreadable": database.Unreadable("The payload of this record")}
		}
		return r, err
	})
	if err != nil {
		return nil, false, database.Fail(err, "query audit")
	}
	more := total > len(records)
	return records, more, nil
}

// auditSQL returns the statement of a query in a form that can use an index: one ordered scan for the owner's records
// and one for those without an operator, merged. The page ends before its payloads become too large.
func auditSQL(q audit.Query) (string, []any) {
	var b auditBuilder
	b.where("ts >= %s", q.Since, q.Since > 0)
	b.where("ts < %s", q.Until, q.Until > 0)
	b.where("project_id = %s", q.ProjectID, q.ProjectID != "")
	b.where("session_id = %s", q.SessionID, q.SessionID != "")
	b.where("event_type like any (%s::text[])", likePatterns(q.Types), len(q.Types) > 0)
	if q.After != nil {
		// The first condition follows from the second; it excludes the partitions of later months.
		ts := b.arg(q.After.N)
		b.conditions = append(b.conditions, "ts <= "+ts, "(ts, id) < ("+ts+", "+b.arg(q.After.S)+")")
	}
	// As an argument Postgres would take the limit for a tenth of the rows, and plan the statement anew for each call.
	limit := strconv.Itoa(q.Limit + 1)
	scan := func(of string) string {
		return "(select * from audit where " + strings.Join(append([]string{of}, b.conditions...), " and ") +
			" order by ts desc, id desc limit " + limit + ")"
	}
	var scans []string
	if q.Everyone {
		scans = append(scans, scan("true"))
	}
	if !q.Everyone && !q.OnlyOwner {
		scans = append(scans, scan("user_id = "+b.arg("")))
	}
	if !q.Everyone && q.Owner != "" {
		scans = append(scans, scan("user_id = "+b.arg(q.Owner)))
	}
	source := strings.Join(scans, " union all ")
	return `select id, ts, event_type, user_id, request_id, coalesce(project_id, ''), coalesce(session_id, ''),
       coalesce(run_id, ''), agent_path, body, total
from (select e.*, row_number() over w as n, sum(octet_length(body)) over w as size, count(*) over () as total
      from (select s.*, case when p.body is null then s.payload
                        else jsonb_set(s.payload, array['new_items', s.part_at::text], p.body::jsonb) end::text as body
            from (select * from (` + source + `) s order by ts desc, id desc limit ` + limit + `) s
            left join audit_parts p on p.id = s.part) e
      window w as (order by ts desc, id desc)) page
where n <= ` + b.arg(q.Limit) + ` and (n = 1 or size <= ` + b.arg(auditPageBytes) + `)
order by n`, b.args
}

// auditBuilder collects conditions and their arguments.
type auditBuilder struct {
	conditions []string
	args       []any
}

func (b *auditBuilder) arg(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}

func (b *auditBuilder) where(condition string, v any, wanted bool) {
	if wanted {
		b.conditions = append(b.conditions, fmt.Sprintf(condition, b.arg(v)))
	}
}

// likePatterns converts globs, in which only * is special, to patterns of LIKE.
func likePatterns(globs []string) []string {
	escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`)
	patterns := make([]string, len(globs))
	for i, g := range globs {
		patterns[i] = escape.Replace(g)
	}
	return patterns
}
