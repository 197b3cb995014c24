-- Calls of agents by other agents. The root agent of a run is no invocation: its steps and approvals have the invocation ''.

create table subagent_invocations (
    id            text    primary key,
    session_id    text    not null references sessions (id),
    run_id        text    not null references runs (id),
    parent_id     text    not null default '',      -- the invocation that called it, '' for the root agent
    tool_call_id  text    not null,
    name          text    not null,
    agent_path    text    not null,
    state         text    not null default 'running'
        check (state in ('pending', 'running', 'completed', 'failed', 'cancelled')),
    cage_status   text    not null default 'uncaged'
        check (cage_status in ('caged', 'uncaged', 'pending')),
    cage_policy   jsonb,
    tools         jsonb   not null default '[]',
    input         text    not null,
    output        text    not null default '',
    truncated     boolean not null default false,
    exit          smallint,                          -- 0 completed, 1 failed, 130 cancelled
    error         jsonb,
    steps         int     not null default 0,
    tokens_in     bigint  not null default 0,        -- its own steps; agents below it count for themselves
    tokens_out    bigint  not null default 0,
    cost_total    double precision,
    files_changed jsonb   not null default '[]',
    started_at    bigint  not null,
    ended_at      bigint
);
create index subagent_invocations_by_session on subagent_invocations (session_id, started_at, id);
create index subagent_invocations_by_run on subagent_invocations (run_id, started_at, id);
create index subagent_invocations_live on subagent_invocations (session_id) where state in ('pending', 'running');

alter table run_steps add column invocation_id text not null default '';
alter table run_steps drop constraint run_steps_pkey;
alter table run_steps add primary key (run_id, invocation_id, step, part);

alter table approvals add column invocation_id text not null default '';
