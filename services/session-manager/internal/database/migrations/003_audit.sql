-- The append-only record, in monthly partitions so that an operator can drop old months whole.

create table audit (
    id         text   not null,
    ts         bigint not null,
    event_type text   not null,
    user_id    text   not null default '',
    request_id text   not null default '',
    project_id text,
    session_id text,
    run_id     text,
    agent_path text   not null default '',
    payload    jsonb  not null default '{}',
    primary key (ts, id)
) partition by range (ts);
create index audit_by_user on audit (user_id, ts, id);
create index audit_by_project on audit (project_id, ts, id) where project_id is not null;
create index audit_by_session on audit (session_id, ts, id) where session_id is not null;

create function audit_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'audit is append-only' using errcode = 'insufficient_privilege';
end $$;

-- Privileges already forbid this to the services' role; the trigger also holds where one role does everything.
create trigger audit_append_only before update or delete on audit
    for each row execute function audit_refuse_change();

-- audit_seal takes the right to change a table's rows away from the services' role.
create function audit_seal(target regclass) returns void language plpgsql as $$
begin
    if exists (select from pg_roles where rolname = 'kaged_app') then
        execute format('revoke update, delete, truncate on table %s from kaged_app', target);
    end if;
end $$;

-- audit_ensure_partitions makes the partitions of the month of from_ms and of the months after it. It runs with the rights of the
-- schema's owner, because the services' role creates nothing. Callers at once are serialised.
create function audit_ensure_partitions(from_ms bigint, months int) returns void
    language plpgsql security definer
    set search_path = session_manager, pg_temp as $$
declare
    start_at timestamp := date_trunc('month', to_timestamp(from_ms / 1000.0) at time zone 'UTC');
    month_at timestamp;
    part     text;
begin
    perform pg_advisory_xact_lock(hashtext('session_manager.audit_ensure_partitions'));
    for i in 0 .. least(greatest(months, 1), 24) - 1 loop
        month_at := start_at + make_interval(months => i);
        part := 'audit_' || to_char(month_at, 'YYYYMM');
        continue when to_regclass('session_manager.' || part) is not null;
        begin
            execute format('create table %I partition of audit for values from (%s) to (%s)', part,
                (extract(epoch from month_at) * 1000)::bigint,
                (extract(epoch from month_at + interval '1 month') * 1000)::bigint);
            perform audit_seal(part::regclass);
        exception when check_violation then
            null; -- Records of that month are in the default partition already and may not be moved.
        end;
    end loop;
end $$;

-- Rows outside the months made so far are kept here.
create table audit_default partition of audit default;
select audit_seal('audit'), audit_seal('audit_default');
