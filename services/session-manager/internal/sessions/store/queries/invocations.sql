-- Null columns are read as '' or 0.

-- name: InsertInvocation :exec
insert into subagent_invocations (id, session_id, run_id, parent_id, tool_call_id, name, agent_path, cage_status, cage_policy, tools, input, started_at)
values (@id, @session_id, @run_id, @parent_id, @tool_call_id, @name, @agent_path, @cage_status, sqlc.narg('cage_policy')::text::jsonb,
        sqlc.arg('tools')::text::jsonb, @input, @started_at);

-- name: SetInvocationCage :exec
update subagent_invocations set cage_status = @cage_status where id = @id;

-- name: SetInvocationFiles :exec
update subagent_invocations set files_changed = sqlc.arg('files_changed')::text::jsonb
where id = @id and state in ('pending', 'running');

-- name: EndInvocation :exec
update subagent_invocations set state = @state, exit = @exit::smallint, output = @output, truncated = @truncated,
    error = sqlc.narg('error')::text::jsonb, steps = @steps, tokens_in = @tokens_in, tokens_out = @tokens_out,
    cost_total = sqlc.narg('cost_total'), files_changed = sqlc.arg('files_changed')::text::jsonb, ended_at = @ended_at::bigint
where id = @id and state in ('pending', 'running');

-- name: GetInvocation :one
select id, session_id, run_id, parent_id, tool_call_id, name, agent_path, state, cage_status, coalesce(cage_policy::text, '')::text as cage_policy,
       tools, input, output, truncated, coalesce(error::text, '')::text as error, steps, tokens_in, tokens_out, cost_total, files_changed,
       started_at, coalesce(ended_at, 0)::bigint as ended_at
from subagent_invocations where session_id = @session_id and id = @id;

-- name: ListInvocations :many
-- Only the beginnings of the long columns.
select id, session_id, run_id, parent_id, tool_call_id, name, agent_path, state, cage_status, coalesce(cage_policy::text, '')::text as cage_policy,
       tools, left(input, @chars::int)::text as input, left(output, @chars::int)::text as output, truncated,
       coalesce(error::text, '')::text as error, steps, tokens_in, tokens_out, cost_total, files_changed,
       started_at, coalesce(ended_at, 0)::bigint as ended_at
from subagent_invocations
where session_id = @session_id and (@run_id::text = '' or run_id = @run_id) and (started_at, id) > (@after_at::bigint, @after_id::text)
order by started_at, id limit @row_limit;

-- name: LiveInvocations :many
select i.id, i.session_id, i.run_id, i.parent_id, i.name, i.agent_path, i.state, i.cage_status, i.started_at
from subagent_invocations i
join sessions s on s.id = i.session_id
where i.state in ('pending', 'running') and s.owner_user_id = @owner and (@session_id::text = '' or i.session_id = @session_id::text)
order by i.started_at, i.id;

-- name: CutInvocations :many
-- The open invocations of a run, and those that answer the given calls of its root agent.
select id, session_id, run_id, parent_id, tool_call_id, name, agent_path, state, cage_status, coalesce(cage_policy::text, '')::text as cage_policy,
       tools, input, output, truncated, coalesce(error::text, '')::text as error, steps, tokens_in, tokens_out, cost_total, files_changed,
       started_at, coalesce(ended_at, 0)::bigint as ended_at
from subagent_invocations
where run_id = @run_id and (state in ('pending', 'running') or (parent_id = '' and tool_call_id = any(@calls::text[])))
order by started_at, id;

-- name: SumInvocations :one
-- The usage of the ended invocations of a run; counts are limited to 2^53-1 and costs to 1e12.
select least(coalesce(sum(greatest(tokens_in, 0)), 0), 9007199254740991)::bigint as tokens_in,
       least(coalesce(sum(greatest(tokens_out, 0)), 0), 9007199254740991)::bigint as tokens_out,
       coalesce(sum(least(greatest(cost_total, 0), 1e12)) filter (where cost_total <> 'NaN'), 0)::double precision as cost_total,
       (count(*) filter (where cost_total is null and steps > 0))::bigint as unpriced
from subagent_invocations where run_id = @run_id and state not in ('pending', 'running');

-- name: InvocationsOfRuns :many
-- The first invocations of the given runs, without their texts.
select id, session_id, run_id, parent_id, tool_call_id, name, agent_path, state, cage_status, ''::text as cage_policy,
       '[]'::jsonb as tools, ''::text as input, ''::text as output, truncated, coalesce(error::text, '')::text as error, steps, tokens_in, tokens_out,
       cost_total, '[]'::jsonb as files_changed, started_at, coalesce(ended_at, 0)::bigint as ended_at
from subagent_invocations where run_id = any(@runs::text[]) order by started_at, id limit @row_limit;

-- name: CallersOf :many
-- The caller and state of each invocation of a run.
select id, parent_id, state from subagent_invocations where run_id = @run_id;
