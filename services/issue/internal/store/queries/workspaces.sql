-- name: AssignWorkspace :exec
insert into workspaces as w (name, operator, assignment) values (@name, @operator, @assignment)
on conflict (name) do update set operator = excluded.operator, assignment = excluded.assignment where w.assignment < excluded.assignment;

-- name: OperatorOf :one
select operator from workspaces where name = @name;
