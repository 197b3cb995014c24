-- Model calls with their use, and the budgets of sessions. Money is counted in billionths of a US dollar.

create table spend (
    run_id            text    not null references runs (id),
    invocation_id     text    not null default '',   -- '' for the root agent
    call              int     not null,              -- counts from 1 in the invocation
    session_id        text    not null references sessions (id),
    owner_user_id     text    not null,
    agent_path        text    not null,
    model             text    not null,
    reserved_nano_usd bigint  not null,
    reserved_tokens   bigint  not null,
    reserved_calls    bigint  not null,
    nano_usd          bigint  not null default 0,    -- 0 until it is settled
    tokens            bigint  not null default 0,
    calls             bigint  not null default 0,
    estimated         boolean not null default false, -- the use is not known and counts as reserved
    at                bigint  not null,
    settled_at        bigint,
    primary key (run_id, invocation_id, call)
);
create index spend_by_session on spend (session_id, agent_path) include (nano_usd, tokens, calls);
create index spend_by_owner on spend (owner_user_id, at) include (agent_path, nano_usd, tokens, calls);
create index spend_in_flight on spend (owner_user_id, session_id) where settled_at is null;

alter table sessions add column budget jsonb;
