-- name: AddPromptVersion :many
-- It adds no row if the last version is the same text, or if another writer was faster.
insert into prompt_versions (owner_user_id, project_id, path, version, sha256, author, created_at)
select @owner::text, @project_id::text, @path::text, coalesce(max(v.version), 0) + 1, @sha256::text, @author::text, @created_at::bigint
from prompt_versions v where v.owner_user_id = @owner and v.project_id = @project_id and v.path = @path
having (array_agg(v.sha256 order by v.version desc))[1] is distinct from @sha256::text
on conflict do nothing
returning version;

-- name: LastPromptVersion :one
select version, sha256, author, created_at from prompt_versions
where owner_user_id = @owner and project_id = @project_id and path = @path order by version desc limit 1;

-- name: GetPromptVersion :one
select v.version, v.sha256, v.author, v.created_at, p.content from prompt_versions v join prompts p using (sha256)
where v.owner_user_id = @owner and v.project_id = @project_id and v.path = @path and v.version = @version;

-- name: ListPromptVersions :many
select version, sha256, author, created_at from prompt_versions
where owner_user_id = @owner and project_id = @project_id and path = @path order by version desc limit @row_limit;

-- name: SumPromptVersions :many
select path, count(*)::int as versions, max(created_at)::bigint as updated_at from prompt_versions
where owner_user_id = @owner and project_id = @project_id group by path;

-- name: AcceptPrompt :execrows
update projects set approved_hash = @approved_hash, accepted_prompts = @accepted_prompts, updated_at = @updated_at
where owner_user_id = @owner and id = @id and approved_hash = @was_approved;

-- name: LabelProject :execrows
update projects set label = @label where owner_user_id = @owner and id = @id;
