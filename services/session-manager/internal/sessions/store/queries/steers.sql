-- name: InsertSteer :exec
insert into steers (id, session_id, content, created_at) values (@id, @session_id, @content, @created_at);

-- name: DeleteSteers :exec
delete from steers where id = any(@ids::text[]);

-- name: ListSteers :many
select id, content, created_at from steers where session_id = @session_id order by place;

-- name: PostedTo :many
select id from messages where session_id = @session_id and run_id = @run_id::text and role = 'operator' order by ordinal;
