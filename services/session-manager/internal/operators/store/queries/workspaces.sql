-- name: AddWorkspaces :exec
insert into workspaces (name) select unnest(@names::text[]) on conflict do nothing;

-- name: WorkspaceOf :one
select name, assignment, state from workspaces where operator = @operator::text;

-- name: AssignWorkspace :one
-- Of two replicas that assign at once one waits for no row: it takes another workspace, or fails by the unique operator.
update workspaces set operator = @operator::text, assignment = assignment + 1, assigned_at = @now::bigint
where name = (select w.name from workspaces w where w.operator is null and w.state = 'active' and w.name = any(@names::text[])
              order by w.name limit 1 for update skip locked)
returning name, assignment, state;

-- name: SetWorkspaceState :one
update workspaces set state = @state where name = @name returning coalesce(operator, '')::text as operator, assignment;

-- name: ListWorkspaces :many
select w.name, coalesce(w.operator, '')::text as operator, w.state, w.assignment, coalesce(w.assigned_at, 0)::bigint as assigned_at,
       (select count(*) from projects p where p.workspace = w.name)::int as projects,
       (select count(*) from sessions s where s.workspace = w.name and s.state in ('queued', 'running', 'paused'))::int as at_work
from workspaces w order by w.name;

-- name: LockWorkspace :one
select coalesce(operator, '')::text as operator, assignment, state from workspaces where name = @name for update;

-- name: WorkspaceInUse :one
select (exists (select from projects p where p.workspace = @name) or
        exists (select from sessions s where s.workspace = @name and (s.state <> 'ended' or s.tools_to_end)))::bool;

-- name: ReleaseWorkspace :one
update workspaces set operator = null, assigned_at = null, assignment = assignment + 1 where name = @name returning assignment;
