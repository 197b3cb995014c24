-- name: InsertCompaction :exec
insert into compactions (id, session_id, run_id, invocation_id, agent_path, trigger, strategy, before_tokens, after_tokens, window_tokens,
                         upper_threshold, lower_threshold, turns, messages, summary, fallback, reason, duration_ms, created_at,
                         summary_message_id, compactor, fired)
values (@id, @session_id, nullif(@run_id::text, ''), @invocation_id, @agent_path, @trigger, @strategy, @before_tokens, @after_tokens, @window_tokens,
        @upper_threshold, @lower_threshold, @turns, @messages, @summary, @fallback, @reason, @duration_ms, @created_at,
        nullif(@summary_message_id::text, ''), sqlc.narg('compactor')::text::jsonb, sqlc.narg('fired')::text::jsonb);

-- name: InsertSpans :exec
insert into compaction_spans (compaction_id, n, session_id, message_id, from_step, to_step)
select @compaction_id, unnest(@ns::int[]), @session_id, unnest(@message_ids::text[]), unnest(@from_steps::int[]), unnest(@to_steps::int[]);

-- name: SupersededHistory :one
-- The text that replaces the superseded parts of the root agent's conversation, and the number of its superseded turns.
select coalesce(sum(turns), 0)::int as turns,
       coalesce((array_agg(summary order by created_at desc, id desc))[1], '')::text as summary
from compactions where session_id = @session_id and invocation_id = '' and undone_at is null;

-- name: ListCompactions :many
select id, coalesce(run_id, '')::text as run_id, invocation_id, agent_path, trigger, strategy, before_tokens, after_tokens, window_tokens,
       upper_threshold, lower_threshold, turns, messages, summary, fallback, reason, duration_ms, created_at,
       coalesce(summary_message_id, '')::text as summary_message_id, coalesce(compactor::text, '')::text as compactor,
       coalesce(fired::text, '')::text as fired, operator_flag, operator_notes, undone_at
from compactions
where session_id = @session_id and (@id::text = '' or id = @id) and (@agent_path::text = '' or agent_path = @agent_path)
  and (@before_at::bigint = 0 or (created_at, id) < (@before_at::bigint, @before_id::text))
order by created_at desc, id desc limit @row_limit;

-- name: SpansOf :many
select compaction_id, message_id, from_step, to_step from compaction_spans where compaction_id = any(@ids::text[]) order by compaction_id, n;

-- name: SupersededMessages :many
select id, role, left(content, @chars::int)::text as content, created_at from messages m
where m.session_id = @session_id
  and exists (select 1 from compaction_spans s where s.compaction_id = @compaction_id and s.session_id = @session_id and s.message_id = m.id)
order by ordinal;

-- name: FlagCompaction :exec
update compactions set operator_flag = sqlc.narg('flag'), operator_notes = sqlc.narg('notes') where id = @id and session_id = @session_id;

-- name: UndoCompaction :exec
update compactions set undone_at = @at::bigint where id = @id and session_id = @session_id and undone_at is null;

-- name: KeepMessage :exec
update messages set always_keep = @always_keep where id = @id and session_id = @session_id;

-- name: SpansOfMessage :many
select c.from_step, c.to_step from compaction_spans c join compactions k on k.id = c.compaction_id and k.undone_at is null
where c.session_id = @session_id and c.message_id = @message_id order by c.from_step;
