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
