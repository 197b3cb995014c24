-- name: InsertSpend :exec
insert into spend (run_id, invocation_id, call, session_id, owner_user_id, agent_path, model, reserved_nano_usd, reserved_tokens, reserved_calls, at)
values (@run_id, @invocation_id, @call, @session_id, @owner, @agent_path, @model, @reserved_nano_usd, @reserved_tokens, @reserved_calls, @at);

-- name: SettleSpend :exec
update spend set nano_usd = @nano_usd, tokens = @tokens, calls = @calls, estimated = @estimated, settled_at = @at::bigint
where run_id = @run_id and invocation_id = @invocation_id and call = @call and settled_at is null;

-- name: SettleRun :exec
-- The unsettled calls of an ended run or compaction count with their reservation.
update spend set nano_usd = reserved_nano_usd, tokens = reserved_tokens, calls = reserved_calls, estimated = true, settled_at = @at::bigint
where run_id = @run_id and settled_at is null;

-- name: HasSpend :one
select exists (select from spend where run_id = @run_id and invocation_id = @invocation_id and call = @call);

-- name: HoldBudget :one
-- The session's budget, '' for none. Locks the session's row and the operator's budgets until the transaction ends.
select coalesce(s.budget::text, '')::text as budget, pg_advisory_xact_lock(hashtext('kaged budget'), hashtext(s.owner_user_id))::text as held
from sessions s where s.id = @id for no key update;

-- name: SessionSpend :many
select agent_path, least(sum(nano_usd), 9007199254740991)::bigint as nano_usd, least(sum(tokens), 9007199254740991)::bigint as tokens,
       least(sum(calls), 9007199254740991)::bigint as calls
from spend where session_id = @session_id group by agent_path order by agent_path;

-- name: SessionWorked :one
-- The working time of a session's runs except one.
select least(coalesce(sum(worked_ms), 0), 9007199254740991)::bigint as worked_ms from runs where session_id = @session_id and id <> @but;

-- name: OperatorSpend :many
select agent_path, least(sum(nano_usd), 9007199254740991)::bigint as nano_usd, least(sum(tokens), 9007199254740991)::bigint as tokens,
       least(sum(calls), 9007199254740991)::bigint as calls
from spend where owner_user_id = @owner and at >= @since::bigint group by agent_path order by agent_path;

-- name: Reserved :one
-- An empty session means all sessions of the operator.
select least(coalesce(sum(reserved_nano_usd), 0), 9007199254740991)::bigint as nano_usd,
       least(coalesce(sum(reserved_tokens), 0), 9007199254740991)::bigint as tokens,
       least(coalesce(sum(reserved_calls), 0), 9007199254740991)::bigint as calls
from spend where settled_at is null and owner_user_id = @owner and (@session_id::text = '' or session_id = @session_id::text);

-- name: SpendSince :one
select least(coalesce(sum(nano_usd), 0), 9007199254740991)::bigint as nano_usd,
       least(coalesce(sum(tokens), 0), 9007199254740991)::bigint as tokens,
       least(coalesce(sum(calls), 0), 9007199254740991)::bigint as calls,
       count(*) filter (where estimated) as estimated
from spend where owner_user_id = @owner and at >= @since::bigint and settled_at is not null;

-- name: SpendGroups :many
-- The owner of the session is named for its index: without it each call is looked up in the table of all sessions.
select s.project_id, p.model, least(sum(p.nano_usd), 9007199254740991)::bigint as nano_usd,
       least(sum(p.tokens), 9007199254740991)::bigint as tokens, least(sum(p.calls), 9007199254740991)::bigint as calls,
       count(*) filter (where p.estimated) as estimated
from spend p join sessions s on s.id = p.session_id and s.owner_user_id = p.owner_user_id
where p.owner_user_id = @owner and p.at >= @since::bigint and p.settled_at is not null
group by s.project_id, p.model order by nano_usd desc, tokens desc, s.project_id, p.model limit @most;

-- name: CutCompactions :many
-- The compactions between runs with an unsettled call. A session has one only while a compaction runs, or after its process died.
select distinct run_id, agent_path from spend
where settled_at is null and owner_user_id = @owner and session_id = @session_id and run_id like 'cmp\_%' order by run_id;

-- name: RunSpend :many
select invocation_id, agent_path, max(call)::int as last_call, least(sum(nano_usd), 9007199254740991)::bigint as nano_usd,
       least(sum(tokens), 9007199254740991)::bigint as tokens, least(sum(calls), 9007199254740991)::bigint as calls
from spend where run_id = @run_id group by invocation_id, agent_path order by invocation_id, agent_path;
