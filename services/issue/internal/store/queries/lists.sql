-- name: ListOpen :many
-- The condition is the one of issues_not_ended.
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from issues where owner_user_id = @owner_user_id and project_id = @project_id and status not in ('resolved', 'rejected') and number < @before
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: ListAll :many
-- The numbers come from their index alone, so that rows which are skipped are not read.
select i.id, i.project_id, i.number, i.title, i.status, i.assignment, i.created_by, i.created_at, i.updated_at, i.resolved_at, i.resolved_by,
    i.version
from issues as i where i.owner_user_id = @owner_user_id and i.project_id = @project_id and i.number in (
    select numbered.number from issues as numbered
    where numbered.owner_user_id = @owner_user_id and numbered.project_id = @project_id and numbered.number < @before
    order by numbered.number desc limit sqlc.arg(page_size) offset sqlc.arg(skip)
)
order by i.number desc;

-- name: ListByStatus :many
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from issues where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) and number < @before
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: SearchWords :many
-- By the index of words, for words that few issues hold. scope is a plain word; websearch_to_tsquery takes any text.
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from issues
where words @@ (cast(@scope::text as tsquery) && websearch_to_tsquery('simple', sqlc.arg(q)::text)) and numnode(websearch_to_tsquery('simple', sqlc.arg(q)::text)) > 0
    and owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) and number < @before
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: SearchRecentWords :many
-- Looks at the newest issues alone, in their order, and stops as soon as a page is full: a word that many issues hold would have
-- SearchWords read all of them to find the newest.
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from (
    select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version, words
    from issues
    where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) and number < @before
    order by number desc limit sqlc.arg(recent)
) newest
where words @@ websearch_to_tsquery('simple', sqlc.arg(q)::text) and numnode(websearch_to_tsquery('simple', sqlc.arg(q)::text)) > 0
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: SearchTitles :many
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from issues
where folded_title like sqlc.arg(pattern)::text
    and owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) and number < @before
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: SearchRecentTitles :many
-- To SearchTitles as SearchRecentWords is to SearchWords.
select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version
from (
    select id, project_id, number, title, status, assignment, created_by, created_at, updated_at, resolved_at, resolved_by, version, folded_title
    from issues
    where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) and number < @before
    order by number desc limit sqlc.arg(recent)
) newest
where folded_title like sqlc.arg(pattern)::text
order by number desc limit sqlc.arg(page_size) offset sqlc.arg(skip);

-- name: CountByStatus :one
select count(*) from (select from issues where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) limit @most) matching;

-- name: CountWords :one
select count(*) from (select from issues
where words @@ (cast(@scope::text as tsquery) && websearch_to_tsquery('simple', sqlc.arg(q)::text)) and numnode(websearch_to_tsquery('simple', sqlc.arg(q)::text)) > 0
    and owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) limit @most) matching;

-- name: CountTitles :one
select count(*) from (select from issues
where folded_title like sqlc.arg(pattern)::text
    and owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[]) limit @most) matching;

-- name: CountRecentWords :one
-- Counts among the newest issues alone: a word that many issues hold would have CountWords read the index of all projects.
select count(*) from (
    select from (
        select words from issues
        where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[])
        order by number desc limit sqlc.arg(recent)
    ) newest
    where words @@ websearch_to_tsquery('simple', sqlc.arg(q)::text) and numnode(websearch_to_tsquery('simple', sqlc.arg(q)::text)) > 0
    limit @most
) matching;

-- name: CountRecentTitles :one
-- To CountTitles as CountRecentWords is to CountWords.
select count(*) from (
    select from (
        select folded_title from issues
        where owner_user_id = @owner_user_id and project_id = @project_id and status = any(@statuses::text[])
        order by number desc limit sqlc.arg(recent)
    ) newest
    where folded_title like sqlc.arg(pattern)::text
    limit @most
) matching;
