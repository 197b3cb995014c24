-- A change holds the lease's row so that no other process can take it in between, and a renewal must not wait for that. The epoch is part
-- of a key, so that taking a lease, which changes it, waits for key-share locks, and renewing it, which does not, passes them.
create unique index session_leases_epoch on session_leases (session_id, epoch);

-- Nor may a change wait for ever for a row of its session that somebody else has locked: it fails, and may be tried again.
create or replace function assert_lease(of_session text, by_holder text, with_epoch bigint) returns void language plpgsql as $$
begin
    perform set_config('lock_timeout', '2s', true);
    perform from session_leases where session_id = of_session and holder = by_holder and epoch = with_epoch for key share;
    if not found then
        raise exception 'the lease of session % is no longer held', of_session using errcode = 'KG001';
    end if;
end $$;
