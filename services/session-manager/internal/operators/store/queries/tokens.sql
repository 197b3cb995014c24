-- name: LockTokens :exec
-- One at a time makes tokens of an operator, so that their number is exact.
select pg_advisory_xact_lock(hashtextextended('api_tokens ' || @owner::text, 0));

-- name: DropExpiredTokens :exec
delete from api_tokens where owner_user_id = @owner and expires_at <= @now::bigint;

-- name: CountTokens :one
select count(*) from api_tokens where owner_user_id = @owner;

-- name: InsertToken :exec
insert into api_tokens (id, owner_user_id, name, scope, token_hash, created_at, expires_at)
values (@id, @owner, @name, @scope, @token_hash, @created_at, nullif(@expires_at::bigint, 0));

-- name: ListTokens :many
select id, name, scope, created_at, coalesce(expires_at, 0)::bigint as expires_at, coalesce(last_used_at, 0)::bigint as last_used_at
from api_tokens where owner_user_id = @owner order by created_at, id;

-- name: RevokeToken :one
delete from api_tokens where owner_user_id = @owner and id = @id
returning id, name, scope, created_at, coalesce(expires_at, 0)::bigint as expires_at, coalesce(last_used_at, 0)::bigint as last_used_at;

-- name: FindToken :one
select id, owner_user_id, scope, coalesce(expires_at, 0)::bigint as expires_at, coalesce(last_used_at, 0)::bigint as last_used_at
from api_tokens where token_hash = @token_hash;

-- name: NoteTokenUse :exec
update api_tokens set last_used_at = @now::bigint where id = @id and coalesce(last_used_at, 0) < @before::bigint;
