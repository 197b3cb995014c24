-- Tool calls that wait for an operator, and what became of them. A pending one belongs to a run that is at work.

create table approvals (
    id            text   primary key,
    session_id    text   not null references sessions (id),
    run_id        text   not null references runs (id),
    tool_call_id  text   not null,
    state         text   not null default 'pending'
        check (state in ('pending', 'approved', 'denied', 'expired', 'closed')),
    subject       jsonb  not null,
    requested_at  bigint not null,
    expires_at    bigint not null,
    resolved_at   bigint,
    resolved_by   text,
    comment       text
);
create index approvals_by_session on approvals (session_id, requested_at desc, id desc);
create index approvals_pending on approvals (run_id) where state = 'pending';
