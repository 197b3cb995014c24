-- name: RulesOf :one
select coalesce(limits::text, '')::text as limits, coalesce(budget::text, '')::text as budget, coalesce(disabled_at, 0)::bigint as disabled_at, revision
from operator_rules where operator = @operator;

-- name: SetRules :exec
insert into operator_rules (operator, limits, budget) values (@operator, sqlc.narg('limits')::text::jsonb, sqlc.narg('budget')::text::jsonb)
on conflict (operator) do update set limits = excluded.limits, budget = excluded.budget, revision = operator_rules.revision + 1;

-- name: SetDisabled :exec
insert into operator_rules (operator, disabled_at) values (@operator, nullif(@at::bigint, 0))
on conflict (operator) do update set disabled_at = excluded.disabled_at, revision = operator_rules.revision + 1;

-- name: ListOperators :many
-- The known operators after one, with the counts of their sessions and their use of models since a time.
with known as (
    select operator as id from workspaces where operator is not null
    union select owner_user_id from sessions union select operator from operator_rules union select owner from operator_config
)
select k.id::text as id, coalesce(w.name, '')::text as workspace,
       (select count(*) from sessions s where s.owner_user_id = k.id and s.state <> 'ended')::int as sessions,
       (select count(*) from runs r where r.owner_user_id = k.id and r.state = 'running')::int as running,
       coalesce((select max(s.updated_at) from sessions s where s.owner_user_id = k.id), 0)::bigint as last_active_at,
       least(coalesce(u.nano_usd, 0), 9007199254740991)::bigint as nano_usd, least(coalesce(u.tokens, 0), 9007199254740991)::bigint as tokens,
       least(coalesce(u.calls, 0), 9007199254740991)::bigint as calls,
       coalesce(o.limits::text, '')::text as limits, coalesce(o.budget::text, '')::text as budget, coalesce(o.disabled_at, 0)::bigint as disabled_at
from known k
left join workspaces w on w.operator = k.id
left join operator_rules o on o.operator = k.id
left join lateral (select sum(p.nano_usd) as nano_usd, sum(p.tokens) as tokens, sum(p.calls) as calls from spend p
                   where p.owner_user_id = k.id and p.at >= @since::bigint) u on true
where k.id > @after::text and (@named::text = '' or k.id = @named::text) order by k.id limit @row_limit;

-- name: ListWorkspaces :many
select w.name, coalesce(w.operator, '')::text as operator, w.state, w.assignment, coalesce(w.assigned_at, 0)::bigint as assigned_at,
       (select count(*) from runs r join sessions s on s.id = r.session_id where s.workspace = w.name and r.state = 'running')::int as running
from workspaces w where w.name = any(@names::text[]) order by w.name;

-- name: SetWorkspaceState :execrows
update workspaces set state = @state where name = @name;

-- name: ReleaseWorkspace :execrows
update workspaces set operator = null, assigned_at = null, state = 'active' where name = @name and state = 'draining';

-- name: DrainingWorkspaces :many
select name from workspaces where state = 'draining';
