-- name: InsertStanding :exec
insert into standing_approvals (id, owner_user_id, project_id, project_path, session_id, approval_id, agent_path, tool, kind, words, subject,
                                created_at, created_by)
values (@id, @owner, @project_id, @project_path, nullif(@session_id::text, ''), @approval_id, @agent_path, @tool, @kind, @words,
        sqlc.arg('subject')::text::jsonb, @created_at, @created_by);

-- name: NoteStandingUse :exec
update standing_approvals set used = used + 1, last_used_at = @at::bigint where id = @id;

-- name: CountStanding :one
select count(*)::int from standing_approvals where owner_user_id = @owner and project_id = @project_id and revoked_at is null;

-- name: StandingInForce :many
select id, owner_user_id, project_id, project_path, coalesce(session_id, '')::text as session_id, approval_id, kind, words, subject, created_at,
       created_by, coalesce(revoked_at, 0)::bigint as revoked_at, coalesce(revoked_by, '')::text as revoked_by, used,
       coalesce(last_used_at, 0)::bigint as last_used_at
from standing_approvals
where owner_user_id = @owner and project_id = @project_id and agent_path = @agent_path and tool = @tool and revoked_at is null
  and project_path = @project_path and (session_id is null or session_id = @session_id::text)
order by created_at desc, id desc;

-- name: ListStanding :many
select id, owner_user_id, project_id, project_path, coalesce(session_id, '')::text as session_id, approval_id, kind, words, subject, created_at,
       created_by, coalesce(revoked_at, 0)::bigint as revoked_at, coalesce(revoked_by, '')::text as revoked_by, used,
       coalesce(last_used_at, 0)::bigint as last_used_at
from standing_approvals
where owner_user_id = @owner and (@project_id::text = '' or project_id = @project_id) and (@session_id::text = '' or session_id = @session_id)
  and (@revoked::boolean or revoked_at is null) and (created_at, id) < (@before_at::bigint, @before_id::text)
order by created_at desc, id desc limit @row_limit;

-- name: GetStanding :one
select id, owner_user_id, project_id, project_path, coalesce(session_id, '')::text as session_id, approval_id, kind, words, subject, created_at,
       created_by, coalesce(revoked_at, 0)::bigint as revoked_at, coalesce(revoked_by, '')::text as revoked_by, used,
       coalesce(last_used_at, 0)::bigint as last_used_at
from standing_approvals where owner_user_id = @owner and id = @id for update;

-- name: RevokeStanding :exec
update standing_approvals set revoked_at = @at::bigint, revoked_by = @revoked_by::text where id = @id and revoked_at is null;
