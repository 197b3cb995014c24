-- name: FindProject :one
select sqlc.embed(p), (select count(*) from sessions s where s.owner_user_id = p.owner_user_id and s.project_id = p.id)::int as session_count
from projects p where p.owner_user_id = @owner and p.id = @id;

-- name: ProjectRow :one
select * from projects where owner_user_id = @owner and id = @id;

-- name: ProjectKnown :one
select exists (select from projects where owner_user_id = @owner and id = @id);

-- name: FindProjectByPath :one
select * from projects where owner_user_id = @owner and path = @path;

-- name: ListApproved :many
select path, compiled_hash, sources from projects where workspace = @workspace and compiled_hash <> '';

-- name: ListProjects :many
select p.id, p.path, p.label, p.description, p.dsl_version, p.state, p.aliases, p.prompts, p.unresolved, p.compiled_hash, p.workspace,
       p.registered_at, p.updated_at, p.last_opened_at, p.approved_hash, p.accepted_prompts, (select count(*) from sessions s where s.owner_user_id = p.owner_user_id and s.project_id = p.id)::int as session_count
from projects p where p.owner_user_id = @owner and p.id > @after
order by p.id limit @row_limit;

-- name: SaveProject :one
-- It returns no row if the id belongs to another folder, or if another version was approved meanwhile than was_approved.
insert into projects (owner_user_id, id, path, description, dsl_version, state, diagnostics, warnings, aliases, prompts, unresolved,
                      compiled_hash, sources, rules_hash, workspace, registered_at, updated_at,
                      approved_hash, approved_at, approved_by, accepted_prompts)
values (@owner, @id, @path, @description, @dsl_version, @state, @diagnostics, @warnings, @aliases, @prompts, @unresolved,
        @compiled_hash, @sources, @rules_hash, @workspace, @registered_at, @updated_at,
        @approved_hash, @approved_at, @approved_by, @accepted_prompts)
on conflict (owner_user_id, id) do update
set description = excluded.description, dsl_version = excluded.dsl_version, state = excluded.state, diagnostics = excluded.diagnostics,
    warnings = excluded.warnings, aliases = excluded.aliases, prompts = excluded.prompts, unresolved = excluded.unresolved,
    compiled_hash = excluded.compiled_hash, sources = excluded.sources, rules_hash = excluded.rules_hash, updated_at = excluded.updated_at,
    approved_hash = excluded.approved_hash, approved_at = excluded.approved_at, approved_by = excluded.approved_by,
    accepted_prompts = excluded.accepted_prompts
where projects.path = excluded.path and projects.approved_hash = @was_approved
returning xmax = 0 as created;

-- name: UpgradeProject :execrows
update projects set approved_hash = @approved_hash, approved_at = @approved_at, approved_by = @approved_by, accepted_prompts = @accepted_prompts
where owner_user_id = @owner and id = @id and approved_hash = '' and compiled_hash <> '';

-- name: ProjectAccepted :one
select approved_hash, compiled_hash, accepted_prompts from projects where owner_user_id = @owner and id = @id;

-- name: InvalidateProject :execrows
update projects set state = 'invalid', diagnostics = @diagnostics, updated_at = @now where owner_user_id = @owner and id = @id;

-- name: EvaluatedProject :exec
-- Someone who saved the project in between knows better.
update projects set state = @state, unresolved = @unresolved
where owner_user_id = @owner and id = @id and updated_at = @updated_at and state <> 'invalid';

-- name: OpenedProject :exec
update projects set last_opened_at = greatest(last_opened_at, @now::bigint) where owner_user_id = @owner and id = @id;

-- name: HoldProject :one
-- Whoever creates a session holds its project in the same transaction, so that it cannot be unregistered in between.
select id from projects where owner_user_id = @owner and id = @id for key share;

-- name: LockProject :one
select id from projects where owner_user_id = @owner and id = @id for update;

-- name: DeleteProject :exec
delete from projects where owner_user_id = @owner and id = @id;
