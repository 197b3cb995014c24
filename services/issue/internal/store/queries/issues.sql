-- name: TakeNumber :one
insert into counters as c (owner_user_id, project_id, last_number) values (@owner_user_id, @project_id, 1)
on conflict (owner_user_id, project_id) do update set last_number = c.last_number + 1
returning last_number;

-- name: CreateIssue :exec
insert into issues (id, owner_user_id, project_id, number, title, body, status, created_by, created_at, updated_at, imported_from,
                    client_id, content_hash, words, folded_title)
values (@id, @owner_user_id, @project_id, @number, @title, @body, @status, @created_by, @created_at, @created_at, @imported_from,
        @client_id, @content_hash, to_tsvector('simple', @words::text) || array_to_tsvector(array[@scope::text]), @folded_title);

-- name: FindByClientID :one
select id, owner_user_id, project_id, number, title, body, original_body, status, assignment, created_by, created_at, updated_at,
    resolved_at, resolved_by, version, imported_from, content_hash
from issues where owner_user_id = @owner_user_id and project_id = @project_id and client_id = @client_id::text;

-- name: FindIssue :one
select id, owner_user_id, project_id, number, title, body, original_body, status, assignment, created_by, created_at, updated_at,
    resolved_at, resolved_by, version, imported_from, content_hash
from issues where owner_user_id = @owner_user_id and project_id = @project_id and number = @number;

-- name: LockIssue :one
select id, owner_user_id, project_id, number, title, body, original_body, status, assignment, created_by, created_at, updated_at,
    resolved_at, resolved_by, version, imported_from, content_hash
from issues where owner_user_id = @owner_user_id and project_id = @project_id and number = @number for update;

-- name: ChangeIssue :exec
update issues set title = @title, body = @body, original_body = @original_body, status = @status, assignment = @assignment,
    updated_at = @updated_at, resolved_at = @resolved_at, resolved_by = @resolved_by, version = @version,
    words = to_tsvector('simple', @words::text) || array_to_tsvector(array[@scope::text]), folded_title = @folded_title
where id = @id;

-- name: TouchIssue :exec
update issues set updated_at = @updated_at where id = @id;

-- name: AddUpdate :exec
insert into issue_updates (id, issue_id, author, kind, body, metadata, visibility, created_at)
values (@id, @issue_id, @author, @kind, @body, @metadata, @visibility, @created_at);

-- name: ListUpdates :many
select sqlc.embed(issue_updates) from issue_updates where issue_id = @issue_id and seq > @after order by seq limit @page_size;

-- name: LastUpdates :many
select sqlc.embed(issue_updates) from issue_updates where issue_id = @issue_id order by seq desc limit @page_size;

-- name: ListTodos :many
select sqlc.embed(issue_todos) from issue_todos where issue_id = @issue_id order by position;

-- name: AddTodo :exec
insert into issue_todos (id, issue_id, position, content, status, kind, phase, notes, origin_agent, created_at, completed_at, verified_at, verified_by)
values (@id, @issue_id, @position, @content, @status, @kind, @phase, @notes, @origin_agent, @created_at, @completed_at, @verified_at, @verified_by);

-- name: ChangeTodo :exec
update issue_todos set content = @content, status = @status, notes = @notes, completed_at = @completed_at,
    verified_at = @verified_at, verified_by = @verified_by
where id = @id;

-- name: ChangedBetween :many
select owner_user_id, project_id, number, created_at
from issues where updated_at >= @since and updated_at < @until order by updated_at desc limit @page_size;

-- name: OpenTodos :many
select t.content, t.status, t.kind
from issue_todos t join issues i on i.id = t.issue_id
where i.owner_user_id = @owner_user_id and i.project_id = @project_id and i.number = @number
    and t.status in ('pending', 'in_progress')
order by t.position;
