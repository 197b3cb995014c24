-- name: InsertOutbox :exec
insert into frame_outbox (session_id, n, channel, kind, msg_id, payload, created_at)
select @session_id, unnest(@ns::bigint[]), unnest(@channels::text[]), unnest(@kinds::text[]), unnest(@msg_ids::text[]), unnest(@payloads::bytea[]),
       @created_at;

-- name: ListOutbox :many
select n, channel, kind, msg_id, payload from frame_outbox where session_id = @session_id order by n;

-- name: StrikeOutbox :exec
delete from frame_outbox o using (select unnest(@session_ids::text[]) as session_id, unnest(@ns::bigint[]) as n) published
where o.session_id = published.session_id and o.n = published.n;

-- name: SaveSeqs :exec
insert into session_channel_seq (session_id, channel, seq)
select unnest(@session_ids::text[]), unnest(@channels::text[]), unnest(@seqs::bigint[])
on conflict (session_id, channel) do update set seq = greatest(session_channel_seq.seq, excluded.seq);

-- name: ListSeqs :many
select channel, seq from session_channel_seq where session_id = @session_id;
