-- assert_lease refuses a transaction of a process that no longer holds the session's lease. The lease's row stays locked until the
-- transaction ends, so that no other process can take it in between; transactions of the holder do not wait for one another.
create function assert_lease(of_session text, by_holder text, with_epoch bigint) returns void language plpgsql as $$
begin
    perform from session_leases where session_id = of_session and holder = by_holder and epoch = with_epoch for share;
    if not found then
        raise exception 'the lease of session % is no longer held', of_session using errcode = 'KG001';
    end if;
end $$;
