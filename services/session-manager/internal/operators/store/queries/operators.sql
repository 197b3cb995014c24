-- name: SeeOperator :one
-- It returns no row for a known operator whose row is older than the statement; FindOperator does.
insert into operators (id, first_seen_at) values (@id, @now) on conflict do nothing
returning coalesce(disabled_at, 0)::bigint as disabled_at;

-- name: FindOperator :one
select coalesce(disabled_at, 0)::bigint as disabled_at, limits, config, revision from operators where id = @id;

-- name: SetOperatorDisabled :one
update operators set disabled_at = nullif(@at::bigint, 0) where id = @id returning first_seen_at;

-- name: SetOperatorLimits :one
update operators set limits = @limits, revision = revision + 1 where id = @id returning revision;

-- name: SetOperatorConfig :one
update operators set config = @config, revision = revision + 1 where id = @id returning revision;

-- name: ListOperators :many
-- Counts and sums, and no text of any session.
select o.id, o.first_seen_at, coalesce(o.disabled_at, 0)::bigint as disabled_at, o.limits, o.revision,
       coalesce((select w.name from workspaces w where w.operator = o.id), '')::text as workspace,
       (select count(*) from projects p where p.owner_user_id = o.id)::int as projects,
       (select count(*) from sessions s where s.owner_user_id = o.id and s.state <> 'ended')::int as sessions,
       (select count(*) from runs r where r.owner_user_id = o.id and r.state in ('pending', 'running'))::int as at_work
from operators o where o.id > @after order by o.id limit @row_limit;
