package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/transcript"
	"kaged.dev/services/session-manager/internal/store/db"
)

// messagePageBytes is how large the messages of one page may be together, unless the first alone is larger.
const messagePageBytes = 4 << 20

// listMessages ends a page before its messages become too large together.
const listMessages = `select id, ordinal, role, content, blocks, metadata, run_id, agent_path, subagent_invocation_id, superseded, cost_total,
       created_at, total
from (select m.*, row_number() over w as n, sum(octet_length(content) + octet_length(blocks)) over w as size, count(*) over () as total
      from (select id, ordinal, role, content, coalesce(blocks::text, '') as blocks, coalesce(metadata::text, '') as metadata,
                   coalesce(run_id, '') as run_id, agent_path, coalesce(subagent_invocation_id, '') as subagent_invocation_id,
                   superseded, cost_total, created_at
            from messages where session_id = $1 and ordinal > $2 order by ordinal limit $3::int + 1) m
      window w as (order by ordinal)) page
where n <= $3::int and (n = 1 or size <= $4)
order by ordinal`

// Messages implements [sessions.Store].
func (s *Sessions) Messages(ctx context.Context, session string, after int64, limit int32) ([]record.Message, bool, error) {
	rows, err := s.pool.Query(ctx, listMessages, session, after, limit, messagePageBytes)
	if err != nil {
		return nil, false, fail(err, "list messages")
	}
	total := 0
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (record.Message, error) {
		var r db.HistoryRow
		err := row.Scan(&r.ID, &r.Ordinal, &r.Role, &r.Content, &r.Blocks, &r.Metadata, &r.RunID, &r.AgentPath, &r.SubagentInvocationID,
			&r.Superseded, &r.CostTotal, &r.CreatedAt, &total)
		if err != nil {
			return record.Message{}, err
		}
		return messageFromRow(session, r)
	})
	return list, total > len(list), fail(err, "list messages")
}

// History implements [live.Store].
func (s *Sessions) History(ctx context.Context, session string) ([]record.Message, error) {
	rows, err := db.New(s.pool).History(ctx, session)
	if err != nil {
		return nil, fail(err, "read history")
	}
	list := make([]record.Message, len(rows))
	for i, row := range rows {
		if list[i], err = messageFromRow(session, row); err != nil {
			return nil, fail(err, "read history")
		}
	}
	return list, nil
}

// Ordinal implements [sessions.Store].
func (s *Sessions) Ordinal(ctx context.Context, session, message string) (int64, error) {
	n, err := db.New(s.pool).MessageOrdinal(ctx, session, message)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, record.NotFound(message)
	}
	return n, fail(err, "find message")
}

func messageFromRow(session string, row db.HistoryRow) (record.Message, error) {
	m := record.Message{
		ID: row.ID, SessionID: session, Ordinal: row.Ordinal, Role: record.Role(row.Role), Content: row.Content, RunID: row.RunID,
		AgentPath: row.AgentPath, SubagentInvocationID: row.SubagentInvocationID, Superseded: row.Superseded, Cost: row.CostTotal,
		CreatedAt: row.CreatedAt,
	}
	if row.Blocks != "" {
		blocks, err := transcript.DecodeBlocks([]byte(row.Blocks))
		if err != nil {
			return m, err
		}
		m.Blocks = blocks
	}
	if row.Metadata != "" {
		m.Metadata = new(transcript.Metadata)
		if err := json.Unmarshal([]byte(row.Metadata), m.Metadata); err != nil {
			return m, err
		}
	}
	return m, nil
}
