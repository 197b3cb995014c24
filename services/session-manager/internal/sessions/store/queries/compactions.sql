-- name: InsertCompaction :exec
insert into compactions (id, session_id, run_id, invocation_id, agent_path, trigger, strategy, before_tokens, after_tokens, window_tokens,
                         upper_threshold, lower_threshold, turns, messages, summary, fallback, reason, duration_ms, created_at)
values (@id, @session_id, @run_id, @invocation_id, @agent_path, @trigger, @strategy, @before_tokens, @after_tokens, @window_tokens,
        @upper_threshold, @lower_threshold, @turns, @messages, @summary, @fallback, @reason, @duration_ms, @created_at);

-- name: InsertSpans :exec
insert into compaction_spans (compaction_id, n, session_id, message_id, from_step, to_step)
select @compaction_id, unnest(@ns::int[]), @session_id, unnest(@message_ids::text[]), unnest(@from_steps::int[]), unnest(@to_steps::int[]);

-- name: SupersededHistory :one
-- The text in the place of what compactions of the root agent superseded, and their number of its turns.
select coalesce(sum(turns), 0)::int as turns,
       coalesce((array_agg(summary order by created_at desc, id desc))[1], '')::text as summary
from compactions where session_id = @session_id and invocation_id = '';
