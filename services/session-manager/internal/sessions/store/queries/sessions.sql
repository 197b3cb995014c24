-- Null columns are read as '' or 0.

-- name: InsertSession :exec
insert into sessions (id, owner_user_id, project_id, label, compiled_hash, project_path, workspace, resume_from, created_by, created_at, updated_at,
                      issue_number, budget)
values (@id, @owner, @project_id, nullif(@label::text, ''), @compiled_hash, @project_path, @workspace, nullif(@resume_from::text, ''),
        @owner, @created_at, @created_at, nullif(@issue_number::bigint, 0), nullif(@budget::text, '')::jsonb);

-- name: SessionExists :one
select exists (select from sessions where id = @id);

-- name: ForkedMessages :many
select id from messages where session_id = @session_id and not superseded order by ordinal;

-- name: CopyMessages :exec
-- The copies belong to no run.
with placed as (
    insert into messages (id, session_id, ordinal, role, content, blocks, metadata, agent_path, subagent_invocation_id, cost_total, created_at)
    select c.copy_id, @session_id, c.place, m.role, m.content, m.blocks, m.metadata, m.agent_path, m.subagent_invocation_id, m.cost_total, m.created_at
    from (select unnest(@originals::text[]) as original_id, unnest(@copies::text[]) as copy_id, unnest(@places::bigint[]) as place) c
    join messages m on m.id = c.original_id
)
update sessions s set next_ordinal = cardinality(@copies::text[]) + 1 where s.id = @session_id;

-- name: GetSession :one
select s.id, s.owner_user_id, s.project_id, coalesce(s.label, '')::text as label, s.state, coalesce(s.blocked_reason, '')::text as blocked_reason,
       coalesce(s.model_override, '')::text as model_override, coalesce(s.max_steps_override, 0)::int as max_steps_override,
       coalesce(s.max_output_tokens_override, 0)::int as max_output_tokens_override, s.compiled_hash, s.project_path, s.workspace,
       coalesce(s.resume_from, '')::text as resume_from, (s.next_ordinal - 1)::bigint as message_count, s.audit_head_hash, s.audit_head_items,
       coalesce(s.budget::text, '')::text as budget,
       s.created_at, s.updated_at, coalesce(s.ended_at, 0)::bigint as ended_at, coalesce(s.resume_run, '')::text as resume_run,
       coalesce(s.issue_number, 0)::bigint as issue_number, coalesce(s.recalled_at, 0)::bigint as recalled_at,
       coalesce(s.last_idle_fire, 0)::bigint as last_idle_fire, coalesce(s.start_injections::text, '')::text as start_injections,
       coalesce(r.id, '')::text as run_id, coalesce(r.state, '')::text as run_state, coalesce(r.trigger_message_id, '')::text as run_message,
       coalesce(r.cage_status, '')::text as run_cage, (r.cancel_requested_at is not null)::bool as run_cancelled,
       coalesce(r.prompt_hashes, '{}')::jsonb as prompt_hashes,
       coalesce(t.tokens_in, 0)::bigint as tokens_in, coalesce(t.tokens_out, 0)::bigint as tokens_out,
       (t.cost_total is not null)::bool as cost_known, coalesce(t.cost_total, 0)::double precision as cost_total
from sessions s
left join lateral (select runs.* from runs where runs.session_id = s.id order by runs.created_at desc, runs.id desc limit 1) r on true
-- Sums are numeric and limited to 2^53-1, each cost to 1e12, so that no stored count can make a session unreadable.
left join lateral (select least(coalesce(sum(greatest(runs.tokens_in, 0)), 0), 9007199254740991) as tokens_in,
                          least(coalesce(sum(greatest(runs.tokens_out, 0)), 0), 9007199254740991) as tokens_out,
                          (sum(least(greatest(runs.cost_total, 0), 1e12)) filter (where runs.cost_total <> 'NaN'))::double precision as cost_total
                   from runs where runs.session_id = s.id) t on true
where s.id = @id and (@any_owner::bool or s.owner_user_id = @owner);

-- name: ListSessions :many
select s.id, s.owner_user_id, s.project_id, coalesce(s.label, '')::text as label, s.state,
       coalesce(s.model_override, '')::text as model_override, coalesce(s.max_steps_override, 0)::int as max_steps_override,
       coalesce(s.max_output_tokens_override, 0)::int as max_output_tokens_override, (s.next_ordinal - 1)::bigint as message_count,
       s.created_at, s.updated_at, coalesce(s.issue_number, 0)::bigint as issue_number
from sessions s
where s.owner_user_id = @owner and s.project_id = @project_id and (s.created_at, s.id) < (@before_at::bigint, @before_id::text)
order by s.created_at desc, s.id desc limit @row_limit;

-- name: OpenSessions :many
select id from sessions where owner_user_id = @owner and project_id = @project_id and state <> 'ended' order by id;

-- name: HasOpenSessions :one
select exists (select from sessions where owner_user_id = @owner and project_id = @project_id and state <> 'ended');

-- name: OwnedSessions :many
select id from sessions where owner_user_id = @owner and id = any(@ids::text[]);

-- name: SessionWorkspaces :many
select distinct workspace from sessions
where owner_user_id = @owner and workspace <> '' and (state <> 'ended' or tools_to_end) order by workspace;

-- name: ToolsToEnd :many
select id, workspace from sessions
where tools_to_end and ended_at <= @ended_until::bigint and workspace <> all(coalesce(@except_workspaces::text[], '{}'))
order by ended_at limit @row_limit;

-- name: ToolsEnded :one
-- Returns no row if the workspace was told before.
update sessions set tools_to_end = false where id = @id and tools_to_end returning owner_user_id, project_id;

-- name: OwnerOfLate :one
-- Returns no row if the session is in another workspace, or has ended. For a record of the session's project it may have ended.
select owner_user_id, project_id from sessions where id = @id and workspace = @workspace
    and case when @of_project::text = '' then state <> 'ended' else project_id = @of_project end for share;

-- name: PatchSession :exec
-- Null leaves a field unchanged, '' and 0 clear it.
update sessions set
    state = coalesce(sqlc.narg('state')::text, state),
    budget = case when sqlc.narg('budget')::text is null then budget else nullif(sqlc.narg('budget')::text, '')::jsonb end,
    ended_at = case when sqlc.narg('state')::text = 'ended' then @at::bigint else ended_at end,
    tools_to_end = tools_to_end or coalesce(sqlc.narg('state')::text = 'ended', false),
    blocked_reason = case when sqlc.narg('blocked_reason')::text is null then blocked_reason else nullif(sqlc.narg('blocked_reason')::text, '') end,
    label = case when sqlc.narg('label')::text is null then label else nullif(sqlc.narg('label')::text, '') end,
    model_override = case when sqlc.narg('model')::text is null then model_override else nullif(sqlc.narg('model')::text, '') end,
    max_steps_override = case when sqlc.narg('max_steps')::int is null then max_steps_override else nullif(sqlc.narg('max_steps')::int, 0) end,
    max_output_tokens_override = case when sqlc.narg('max_output_tokens')::int is null then max_output_tokens_override
                                      else nullif(sqlc.narg('max_output_tokens')::int, 0) end,
    issue_number = case when sqlc.narg('issue_number')::bigint is null then issue_number else nullif(sqlc.narg('issue_number')::bigint, 0) end,
    resume_run = case when sqlc.narg('resume_run')::text is null then resume_run else nullif(sqlc.narg('resume_run')::text, '') end,
    recalled_at = coalesce(recalled_at, sqlc.narg('recalled_at')::bigint),
    last_idle_fire = coalesce(sqlc.narg('last_idle_fire')::bigint, last_idle_fire),
    start_injections = coalesce(sqlc.narg('start_injections')::text::jsonb, start_injections),
    audit_head_hash = coalesce(sqlc.narg('audit_head_hash')::text, audit_head_hash),
    audit_head_items = coalesce(sqlc.narg('audit_head_items')::int, audit_head_items),
    updated_at = @at::bigint
where id = @id;
