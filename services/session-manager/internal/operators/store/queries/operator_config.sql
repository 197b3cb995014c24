-- name: OperatorConfigs :many
select set_by, document, revision, updated_at from operator_config where owner = @owner;

-- name: SetOperatorConfig :exec
insert into operator_config (owner, set_by, document, updated_at) values (@owner, @set_by, @document, @updated_at)
on conflict (owner, set_by) do update
set document = excluded.document, updated_at = excluded.updated_at, revision = operator_config.revision + 1;
