package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// messagePageBytes bounds the total size of the messages of a page, unless the first message is larger.
const messagePageBytes = 4 << 20

// listMessages selects a page of messages and ends it before messagePageBytes are exceeded. ORDER is replaced by
// asc or desc.
const listMessages = `select id, ordinal, role, content, blocks, metadata, run_id, agent_path, subagent_invocation_id, superseded,
       cost_total, created_at, always_keep, total
from (select m.*, row_number() over w as n, sum(octet_length(content) + octet_length(blocks)) over w as size,
             count(*) over () as total
      from (select id, ordinal, role, content, coalesce(blocks::text, '') as blocks,
                   coalesce(metadata::text, '') as metadata, coalesce(run_id, '') as run_id, agent_path,
                   coalesce(subagent_invocation_id, '') as subagent_invocation_id,
                   superseded or exists (select 1 from compaction_spans c
                       join compactions k on k.id = c.compaction_id and k.undone_at is null
                       where c.session_id = $1 and c.message_id = messages.id and c.to_step = 0) as superseded,
                   cost_total, created_at, always_keep
            from messages where session_id = $1 and ordinal > $2 and ordinal < $5
            order by ordinal ORDER limit $3::int + 1) m
      window w as (order by ordinal ORDER)) page
where n <= $3::int and (n = 1 or size <= $4)
order by ordinal ORDER`

var (
	listOldestMessages = strings.ReplaceAll(listMessages, "ORDER", "asc")
	listNewestMessages = strings.ReplaceAll(listMessages, "ORDER", "desc")
)

// Messages implements [sessions.Store].
func (s *Sessions) Messages(
	ctx context.Context, session string, p record.Part, limit int32,
) ([]record.Message, bool, error) {
	query, before := listOldestMessages, p.Before
	if p.NewestFirst {
		query = listNewestMessages
	}
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.db.Query(ctx, query, session, p.After, limit, messagePageBytes, before)
	if err != nil {
		return nil, false, database.Fail(err, "list messages")
	}
	total := 0
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (record.Message, error) {
		var r db.HistoryRow
		err := row.Scan(&r.ID, &r.Ordinal, &r.Role, &r.Content, &r.Blocks, &r.Metadata, &r.RunID, &r.AgentPath,
			&r.SubagentInvocationID,
			&r.Superseded, &r.CostTotal, &r.CreatedAt, &r.AlwaysKeep, &total)
		if err != nil {
			return record.Message{}, err
		}
		return messageFromRow(session, r), nil
	})
	return list, total > len(list), database.Fail(err, "list messages")
}

// TurnsBefore implements [sessions.Store].
func (s *Sessions) TurnsBefore(ctx context.Context, session string, ordinal int64) (int32, error) {
	n, err := db.New(s.db).TurnsBefore(ctx, session, ordinal)
	return n, database.Fail(err, "count turns")
}

// History implements [live.Store].
func (s *Sessions) History(ctx context.Context, session string, after int64) ([]record.Message, error) {
	rows, err := db.New(s.db).History(ctx, session, after)
	if err != nil {
		return nil, database.Fail(err, "read history")
	}
	list := make([]record.Message, len(rows))
	first := -1
	for i, row := range rows {
		list[i] = messageFromRow(session, row)
		if first < 0 && len(list[i].Spans) > 0 {
			first = i
		}
	}
	if first < 0 {
		return list, nil
	}
	gone, err := db.New(s.db).SupersededHistory(ctx, session)
	if err != nil {
		return nil, database.Fail(err, "read the summary of a history")
	}
	list[first].Summary, list[first].SupersededTurns = gone.Summary, int(gone.Turns)
	return list, nil
}

// Ordinal implements [sessions.Store].
func (s *Sessions) Ordinal(ctx context.Context, session, message string) (int64, error) {
	n, err := db.New(s.db).MessageOrdinal(ctx, session, message)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, record.NotFound(message)
	}
	return n, database.Fail(err, "find message")
}

// messageFromRow returns a stored message. If a part of it cannot be read, the text remains and the metadata says
// so, so that one row never hides the others.
func messageFromRow(session string, row db.HistoryRow) record.Message {
	m := record.Message{
		ID: row.ID, SessionID: session, Ordinal: row.Ordinal, Role: record.Role(row.Role), Content: row.Content,
		RunID:     row.RunID,
		AgentPath: row.AgentPath, SubagentInvocationID: row.SubagentInvocationID, Superseded: row.Superseded,
		Cost:      cost(row.CostTotal),
		CreatedAt: row.CreatedAt, AlwaysKeep: row.AlwaysKeep,
	}
	for i := range min(len(row.FromSteps), len(row.ToSteps)) {
		m.Spans = append(m.Spans, contract.Span{MessageID: m.ID, From: int(row.FromSteps[i]), To: int(row.ToSteps[i])})
	}
	if row.Metadata != "" {
		m.Metadata = new(transcript.Metadata)
		if err := json.Unmarshal([]byte(row.Metadata), m.Metadata); err != nil {
			m.Metadata = unreadable("The metadata of this message")
		}
	}
	if row.Blocks != "" {
		blocks, err := transcript.DecodeBlocks([]byte(row.Blocks))
		if err != nil {
			m.Metadata = unreadable("The parts of this message")
			return m
		}
		m.Blocks = blocks
	}
	return m
}

// unreadable returns the metadata of a message with an unreadable part.
func unreadable(what string) *transcript.Metadata {
	return &transcript.Metadata{ErrorCode: fault.Internal.String(), ErrorMessage: database.Unreadable(what)}
}

// maxCost is the largest returned cost, in USD.
const maxCost = 1e12

// cost returns a stored cost as a number that JSON can encode; it may be nil.
func cost(usd *float64) *float64 {
	if usd == nil || math.IsNaN(*usd) {
		return nil
	}
	shown := max(-maxCost, min(*usd, maxCost))
	return &shown
}
