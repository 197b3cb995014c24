-- What is left of an operator's rate limits, which all gateways share. A crash of the database fills them up.
create unlogged table rate_limits (
    owner_user_id text   not null,
    name          text   not null,
    full_at       bigint not null,   -- when all of it is there again, in microseconds
    primary key (owner_user_id, name)
);

-- take_tokens takes up to wanted tokens of a limit of so many a minute, all of which may be taken at once: GCRA by the clock of the
-- database. Without one it says after how many microseconds there is one.
create function take_tokens(of_owner text, of_name text, wanted int, per_minute int, out taken int, out retry_after bigint)
language plpgsql as $$
declare
    every bigint := 60000000 / per_minute;
    burst bigint := every * per_minute;
    at bigint;
    last bigint;
begin
    insert into rate_limits values (of_owner, of_name, 0) on conflict do nothing;
    select full_at into last from rate_limits where owner_user_id = of_owner and name = of_name for update;
    at := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    last := least(greatest(last, at), at + burst);
    taken := least(wanted, (at + burst - last) / every);
    retry_after := 0;
    if taken > 0 then
        update rate_limits set full_at = last + taken * every where owner_user_id = of_owner and name = of_name;
    else
        retry_after := last + every - at - burst;
    end if;
end $$;
