-- name: PutSnapshot :exec
insert into snapshots (hash, compiled, created_at) values (@hash, @compiled, @created_at)
on conflict (hash) do nothing;

-- name: GetSnapshot :one
select compiled from snapshots where hash = @hash;

-- name: PutPrompts :exec
insert into prompts (sha256, content, created_at)
select unnest(@sha256s::text[]), unnest(@contents::text[]), @created_at::bigint
on conflict (sha256) do nothing;

-- name: GetPrompts :many
select sha256, content from prompts where sha256 = any(@sha256s::text[]);
