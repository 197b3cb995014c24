-- Time is the database's, so that the clocks of processes need not agree. A lease released by its holder has the holder '', one released for
-- a dead instance '-'; both keep their epoch.

-- name: TakeLease :one
-- Returns no row while another process holds the lease.
with before as (select holder from session_leases where session_id = @session_id)
insert into session_leases as l (session_id, holder, node, address, epoch, expires_at)
values (@session_id, @holder, @node, @address, 1, (extract(epoch from clock_timestamp()) * 1000)::bigint + @lifetime::bigint)
on conflict (session_id) do update
set holder = excluded.holder, node = excluded.node, address = excluded.address, epoch = l.epoch + 1, expires_at = excluded.expires_at
where l.expires_at <= (extract(epoch from clock_timestamp()) * 1000)::bigint or l.holder = excluded.holder
returning epoch, coalesce((select holder from before), '')::text as before;

-- name: LeaseAddress :one
select address from session_leases where session_id = @session_id and holder not in ('', '-');

-- name: RenewLeases :many
-- A locked row is renewed the next time, so that it does not delay the renewal of the others.
with mine as (select m.session_id from session_leases m where m.holder = @holder and m.session_id = any(@session_ids::text[])),
free as (
    select f.session_id from session_leases f where f.holder = @holder and f.session_id = any(@session_ids::text[])
    for no key update skip locked
),
renewed as (
    update session_leases l set expires_at = (extract(epoch from clock_timestamp()) * 1000)::bigint + @lifetime::bigint
    from free where l.session_id = free.session_id
)
select mine.session_id from mine;

-- name: ReleaseLeases :exec
update session_leases l set holder = '', expires_at = 0
from (select unnest(@session_ids::text[]) as session_id, unnest(@epochs::bigint[]) as epoch) given
where l.session_id = given.session_id and l.epoch = given.epoch and l.holder = @holder;

-- name: ReleaseNode :execrows
update session_leases set holder = '-', expires_at = 0 where node = @node and holder not in (@spared::text, '', '-');

-- name: LeaseHeld :one
select exists (select from session_leases where session_id = @session_id and holder = @holder and epoch = @epoch);

-- name: AssertLease :exec
select assert_lease(@session_id, @holder, @epoch);

-- name: AbandonedSessions :many
select w.session_id from (
    select session_id from runs where state = 'running' union select id from sessions where resume_run is not null
    union select session_id from spend where settled_at is null and run_id like 'cmp\_%'
) w
left join session_leases l on l.session_id = w.session_id
where l.session_id is null or l.expires_at <= (extract(epoch from clock_timestamp()) * 1000)::bigint
order by w.session_id limit @row_limit;
