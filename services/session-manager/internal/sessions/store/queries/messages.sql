-- name: AppendMessage :exec
with place as (update sessions set next_ordinal = next_ordinal + 1 where id = @session_id returning next_ordinal - 1 as ordinal)
insert into messages (id, session_id, ordinal, role, content, blocks, metadata, run_id, agent_path, subagent_invocation_id, cost_total, created_at)
select @id, @session_id, place.ordinal, @role, @content, sqlc.narg('blocks')::text::jsonb, sqlc.narg('metadata')::text::jsonb,
       nullif(@run_id::text, ''), @agent_path, nullif(@subagent_invocation_id::text, ''), sqlc.narg('cost_total'), @created_at
from place;

-- name: MessageOrdinal :one
select ordinal from messages where session_id = @session_id and id = @id;

-- name: History :many
-- The messages after an ordinal. The two lists are the first and last steps of a message's superseded spans.
select m.id, m.ordinal, m.role, m.content, coalesce(m.blocks::text, '')::text as blocks, coalesce(m.metadata::text, '')::text as metadata,
       coalesce(m.run_id, '')::text as run_id, m.agent_path, coalesce(m.subagent_invocation_id, '')::text as subagent_invocation_id,
       m.superseded, m.cost_total, m.created_at, m.always_keep, coalesce(s.from_steps, '{}')::int[] as from_steps, coalesce(s.to_steps, '{}')::int[] as to_steps
from messages m
left join (select c.message_id, array_agg(c.from_step order by c.from_step) as from_steps, array_agg(c.to_step order by c.from_step) as to_steps
           from compaction_spans c join compactions k on k.id = c.compaction_id and k.undone_at is null
           where c.session_id = @session_id group by c.message_id) s on s.message_id = m.id
where m.session_id = @session_id and m.ordinal > @after::bigint order by m.ordinal;

-- name: TurnsBefore :one
select count(*)::int from messages where session_id = @session_id and ordinal < @ordinal and role = 'operator';
