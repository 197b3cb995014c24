-- name: AppendMessage :exec
with place as (update sessions set next_ordinal = next_ordinal + 1 where id = @session_id returning next_ordinal - 1 as ordinal)
insert into messages (id, session_id, ordinal, role, content, blocks, metadata, run_id, agent_path, subagent_invocation_id, cost_total, created_at)
select @id, @session_id, place.ordinal, @role, @content, sqlc.narg('blocks')::text::jsonb, sqlc.narg('metadata')::text::jsonb,
       nullif(@run_id::text, ''), @agent_path, nullif(@subagent_invocation_id::text, ''), sqlc.narg('cost_total'), @created_at
from place;

-- name: MessageOrdinal :one
select ordinal from messages where session_id = @session_id and id = @id;

-- name: History :many
select id, ordinal, role, content, coalesce(blocks::text, '')::text as blocks, coalesce(metadata::text, '')::text as metadata,
       coalesce(run_id, '')::text as run_id, agent_path, coalesce(subagent_invocation_id, '')::text as subagent_invocation_id, superseded,
       cost_total, created_at
from messages where session_id = @session_id order by ordinal;
