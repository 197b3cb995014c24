package store

import (
	"context"
	"math"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// queueLedger adds the statements for new entries of a session's ledger to q. All entries are of one run.
func queueLedger(ctx context.Context, q *db.Queries, session string, entries []contract.LedgerEntry) error {
	if len(entries) == 0 {
		return nil
	}
	p := db.InsertLedgerParams{SessionID: session, RunID: entries[0].RunID}
	for _, e := range entries {
		p.Seqs, p.Ats = append(p.Seqs, e.Seq), append(p.Ats, e.At)
		p.InvocationIds, p.Steps = append(p.InvocationIds, e.InvocationID), append(p.Steps, int32(e.Step))
		p.AgentPaths, p.Kinds = append(p.AgentPaths, e.Agent), append(p.Kinds, string(e.Kind))
		p.Paths, p.Sums = append(p.Paths, check.Storable(e.Path)), append(p.Sums, e.SHA256)
		p.Commands, p.Texts = append(p.Commands, check.Storable(e.Command)), append(p.Texts, check.Storable(e.Text))
		p.Refs = append(p.Refs, e.Ref)
		code := int32(math.MinInt32)
		if e.ExitCode != nil {
			code = int32(*e.ExitCode)
		}
		p.ExitCodes = append(p.ExitCodes, code)
	}
	return q.InsertLedger(ctx, p)
}

// Ledger implements [sessions.Store].
func (s *Sessions) Ledger(
	ctx context.Context, session, agent, kind string, after *page.Key, limit int32,
) ([]contract.LedgerEntry, error) {
	p := db.ListLedgerParams{SessionID: session, AgentPath: agent, Kind: kind, RowLimit: limit}
	if after != nil {
		p.After = after.N
	}
	rows, err := db.New(s.db).ListLedger(ctx, p)
	list := make([]contract.LedgerEntry, len(rows))
	for i, row := range rows {
		list[i] = entryFromRow(row)
	}
	return list, database.Fail(err, "list the ledger")
}

//convert:import contract "kaged.dev/pkg/contract"
//convert:one entryFromRow db.ListLedgerRow contract.LedgerEntry AgentPath=Agent

// relevantEntries is the number of entries of each kind that a run receives.
const relevantEntries = 100

// RelevantLedger implements [live.Store].
func (s *Sessions) RelevantLedger(ctx context.Context, session string) (contract.Ledger, error) {
	q := db.New(s.db)
	var out contract.Ledger
	var err error
	if out.Seq, err = q.LastLedgerSeq(ctx, session); err != nil || out.Seq == 0 {
		return out, database.Fail(err, "number the ledger")
	}
	kinds := []string{string(contract.LedgerDone)}
	for _, kind := range contract.LedgerKinds {
		kinds = append(kinds, string(kind))
	}
	rows, err := q.RelevantLedger(ctx, kinds, session, relevantEntries)
	for _, row := range rows {
		out.Entries = append(out.Entries, entryFromRow(db.ListLedgerRow(row)))
	}
	return out, database.Fail(err, "read the ledger")
}
