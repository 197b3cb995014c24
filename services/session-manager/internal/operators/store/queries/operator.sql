-- name: EnsureEpoch :one
-- It returns no row when another transaction made the row just now: its snapshot is older than that.
with made as (insert into auth_epoch (secret, rotated_at) select @secret::bytea, @now::bigint where not exists (select from auth_epoch)
              on conflict (singleton) do nothing returning secret)
select secret from made union all select secret from auth_epoch limit 1;

-- name: ReplaceEpoch :exec
insert into auth_epoch (secret, rotated_at) values (@secret, @now)
on conflict (singleton) do update set secret = excluded.secret, rotated_at = excluded.rotated_at;

-- name: DropLaunchTokens :exec
delete from launch_tokens;

-- name: PutLaunchToken :exec
with expired as (delete from launch_tokens where expires_at <= @now::bigint)
insert into launch_tokens (token_hash, created_at, expires_at) values (@token_hash, @now::bigint, @expires_at);

-- name: TakeLaunchToken :one
delete from launch_tokens where token_hash = @token_hash returning expires_at;
