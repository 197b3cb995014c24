package store

import (
	"context"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Status implements [sessions.Store].
func (s *Sessions) Status(ctx context.Context, owner, project string, since int64, runs int32) (record.Status, error) {
	out := record.Status{Sessions: map[record.State]int{}}
	fail := func(err error) (record.Status, error) {
		return record.Status{}, database.Fail(err, "count the work of a project")
	}
	q := db.New(s.db)
	counts, err := q.CountSessions(ctx, owner, project)
	if err != nil {
		return fail(err)
	}
	for _, c := range counts {
		out.Sessions[record.State(c.State)] = int(c.Sessions)
	}
	sums, err := q.SumRuns(ctx, owner, project, since)
	if err != nil {
		return fail(err)
	}
	out.Used = record.Totals{TokensIn: sums.TokensIn, TokensOut: sums.TokensOut, CostUSD: &sums.Cost}
	answers, err := q.CountAnswers(ctx, owner, project, since)
	if err != nil {
		return fail(err)
	}
	out.Answers = int(answers)
	rows, err := q.RecentRuns(ctx, owner, project, runs)
	if err != nil {
		return fail(err)
	}
	for _, r := range rows {
		out.Recent = append(out.Recent, record.Run{
			ID: r.ID, SessionID: r.SessionID, State: record.RunState(r.State), CreatedAt: r.CreatedAt,
			StartedAt: r.StartedAt,
			EndedAt:   r.EndedAt, Totals: record.Totals{
				TokensIn: r.TokensIn, TokensOut: r.TokensOut, CostUSD: r.CostTotal,
			},
		})
	}
	return out, nil
}
