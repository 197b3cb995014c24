-- name: InsertRun :exec
insert into runs (id, session_id, owner_user_id, project_id, trigger_message_id, message_id, state, compiled_hash, prompt_hashes, created_at, started_at,
                  cage_status, issue_number)
values (@id, @session_id, @owner, @project_id, @trigger_message_id, @message_id, @state, @compiled_hash, @prompt_hashes, @created_at,
        nullif(@started_at::bigint, 0), @cage_status, nullif(@issue_number::bigint, 0));

-- name: SetCageStatus :exec
update runs set cage_status = @cage_status where id = @id;

-- name: EndRun :exec
update runs set state = @state, outcome = @state, stop_reason = nullif(@stop_reason::text, ''), error = sqlc.narg('error')::text::jsonb,
    tokens_in = @tokens_in, tokens_out = @tokens_out, cost_total = sqlc.narg('cost_total'), steps = @steps, ended_at = @ended_at::bigint
where id = @id and state in ('pending', 'running');

-- name: NoteWorked :exec
update runs set worked_ms = @worked_ms::bigint where id = @id;

-- name: NoteCancel :exec
update runs set cancel_requested_at = @at::bigint where id = @id and cancel_requested_at is null;

-- name: InsertStep :exec
insert into run_steps (run_id, invocation_id, step, part, body, created_at) values (@run_id, @invocation_id, @step, @part, @body, @created_at);

-- name: KeepPartial :exec
-- The results so far of an unfinished step; they replace those of an earlier handover.
insert into run_steps (run_id, invocation_id, step, part, body, created_at) values (@run_id, @invocation_id, @step, 3, @body, @created_at)
on conflict (run_id, invocation_id, step, part) do update set body = excluded.body, created_at = excluded.created_at;

-- name: ReleaseRun :exec
update runs set released_at = @at::bigint where id = @id and state = 'running';

-- name: AdoptRun :exec
update runs set released_at = null where id = @id;

-- name: ListSteps :many
select step, part, body, created_at from run_steps where run_id = @run_id and invocation_id = @invocation_id order by step, part;

-- name: GetRun :one
select id, session_id, owner_user_id, project_id, trigger_message_id, message_id, state, coalesce(stop_reason, '')::text as stop_reason,
       coalesce(error::text, '')::text as error, tokens_in, tokens_out, cost_total, steps, compiled_hash, prompt_hashes,
       created_at, coalesce(started_at, 0)::bigint as started_at, coalesce(ended_at, 0)::bigint as ended_at, cage_status,
       coalesce(cancel_requested_at, 0)::bigint as cancel_requested_at, coalesce(released_at, 0)::bigint as released_at, worked_ms
from runs where session_id = @session_id and id = @id;

-- name: ListRuns :many
select id, session_id, owner_user_id, project_id, trigger_message_id, message_id, state, coalesce(stop_reason, '')::text as stop_reason,
       coalesce(error::text, '')::text as error, tokens_in, tokens_out, cost_total, steps, compiled_hash, prompt_hashes,
       created_at, coalesce(started_at, 0)::bigint as started_at, coalesce(ended_at, 0)::bigint as ended_at, cage_status,
       coalesce(cancel_requested_at, 0)::bigint as cancel_requested_at, coalesce(released_at, 0)::bigint as released_at, worked_ms
from runs where session_id = @session_id and (created_at, id) > (@after_at::bigint, @after_id::text)
order by created_at, id limit @row_limit;

-- name: CountTries :one
select count(*)::int from runs where session_id = @session_id and trigger_message_id = @trigger_message_id;

-- name: ActiveRuns :many
select r.id, r.session_id, r.project_id, r.state, r.cage_status, r.created_at, coalesce(r.started_at, 0)::bigint as started_at,
       coalesce(left(m.content, @prompt_chars::int), '')::text as prompt
from runs r
left join messages m on m.id = r.trigger_message_id
where r.state in ('pending', 'running') and r.owner_user_id = @owner and (@session_id::text = '' or r.session_id = @session_id::text)
order by r.created_at, r.id;

-- name: CountRunning :many
select coalesce(r.project_id, '')::text as project_id, count(r.id)::int as running, (extract(epoch from now.at) * 1000000)::bigint as version
from (select statement_timestamp() as at) now
left join runs r on r.owner_user_id = @owner and r.state = 'running'
group by r.project_id, now.at;

-- name: AssertSlot :exec
select assert_slot(@owner, @project_id, @run_id, @per_project::int, @per_operator::int);

-- name: StartRun :exec
update runs set state = 'running', started_at = @started_at::bigint, cage_status = @cage_status, prompt_hashes = @prompt_hashes
where id = @id and state = 'pending';

-- name: SupersedeMessages :exec
update messages set superseded = true where id = any(@ids::text[]);

-- name: CountSessions :many
select state, count(*)::int as sessions from sessions where owner_user_id = @owner and project_id = @project_id group by state;

-- name: SumRuns :one
select coalesce(sum(tokens_in), 0)::bigint as tokens_in, coalesce(sum(tokens_out), 0)::bigint as tokens_out,
       coalesce(sum(cost_total), 0)::double precision as cost
from runs where owner_user_id = @owner and project_id = @project_id and created_at >= @since::bigint;

-- name: CountAnswers :one
-- The runs that ended since a time: each ends with one message of the root agent, but for a run withdrawn from the queue.
select count(*)::int from runs
where owner_user_id = @owner and project_id = @project_id and ended_at >= @since::bigint and started_at is not null;

-- name: RecentRuns :many
select id, session_id, state, tokens_in, tokens_out, cost_total, created_at, coalesce(started_at, 0)::bigint as started_at,
       coalesce(ended_at, 0)::bigint as ended_at
from runs where owner_user_id = @owner and project_id = @project_id order by created_at desc, id desc limit @row_limit;

-- name: LastRuns :many
-- The latest run of each session that has ended.
select r.id, r.session_id, r.state, coalesce(r.error::text, '')::text as error, coalesce(r.ended_at, 0)::bigint as ended_at
from (select unnest(@session_ids::text[]) as session_id) s cross join lateral (select * from runs
  where runs.session_id = s.session_id and runs.owner_user_id = @owner and runs.state not in ('pending', 'running')
  order by runs.created_at desc, runs.id desc limit 1) r;
