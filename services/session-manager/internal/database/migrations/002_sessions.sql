-- Conversations and the work they cause. Order within a session is the ordinal, never a clock.

create table sessions (
    id                         text   primary key,
    owner_user_id              text   not null,
    project_id                 text   not null,
    label                      text,
    state                      text   not null default 'idle'
        check (state in ('idle', 'queued', 'running', 'paused', 'failed', 'ended')),
    blocked_reason             text,
    model_override             text,
    max_steps_override         int,
    max_output_tokens_override int,
    compiled_hash              text   not null,   -- pinned at creation
    project_path               text   not null,
    workspace                  text   not null default '',
    resume_from                text,
    next_ordinal               bigint not null default 1,
    audit_head_hash            text   not null default '',
    audit_head_items           int    not null default 0,
    created_by                 text   not null,
    created_at                 bigint not null,
    updated_at                 bigint not null,
    ended_at                   bigint
);
create index sessions_by_project on sessions (owner_user_id, project_id, created_at desc, id desc);
create index sessions_at_work on sessions (state) where state in ('queued', 'running', 'paused');

create table messages (
    id                     text    primary key,
    session_id             text    not null references sessions (id),
    ordinal                bigint  not null,
    role                   text    not null,
    content                text    not null default '',
    blocks                 jsonb,
    metadata               jsonb,
    run_id                 text,
    agent_path             text    not null default '',
    subagent_invocation_id text,
    superseded             boolean not null default false,
    cost_total             double precision,
    created_at             bigint  not null,
    unique (session_id, ordinal)
);

create table runs (
    id                  text   primary key,
    session_id          text   not null references sessions (id),
    owner_user_id       text   not null,
    project_id          text   not null,
    trigger_message_id  text   not null,
    message_id          text   not null,          -- the message it writes, written once at its end
    state               text   not null default 'pending'
        check (state in ('pending', 'running', 'completed', 'paused', 'failed', 'cancelled')),
    outcome             text,
    stop_reason         text,
    error               jsonb,
    tokens_in           bigint not null default 0,
    tokens_out          bigint not null default 0,
    cost_total          double precision,
    steps               int    not null default 0,
    compiled_hash       text   not null,
    prompt_hashes       jsonb  not null default '{}',
    cancel_requested_at bigint,
    created_at          bigint not null,
    started_at          bigint,
    ended_at            bigint
);
create unique index runs_one_at_work on runs (session_id) where state in ('pending', 'running');
create index runs_by_session on runs (session_id, created_at, id);
create index runs_at_work on runs (owner_user_id, project_id) where state in ('pending', 'running');

-- What a run has done, half a step at a time; rows are never changed.
create table run_steps (
    run_id     text     not null references runs (id),
    step       int      not null,
    part       smallint not null check (part in (1, 2)), -- 1 the model's turn, 2 the results of its tools
    body       bytea    not null,                        -- proto, deterministic
    created_at bigint   not null,
    primary key (run_id, step, part)
);

-- Who writes a session. The epoch grows with each holder, so a stale holder's write can be refused.
create table session_leases (
    session_id text   primary key,
    holder     text   not null,                   -- the instance
    node       text   not null,
    address    text   not null,
    epoch      bigint not null,
    expires_at bigint not null
);
create index session_leases_by_holder on session_leases (holder);

-- The last sequence number of each channel, for when the stream of frames has aged out.
create table session_channel_seq (
    session_id text   not null,
    channel    text   not null,
    seq        bigint not null,
    primary key (session_id, channel)
);

-- Lifecycle frames that must reach the stream even if the process dies between commit and publish.
create table frame_outbox (
    session_id text   not null,
    n          bigint not null,
    channel    text   not null,
    kind       text   not null,
    msg_id     text   not null,
    payload    bytea  not null,
    created_at bigint not null,
    primary key (session_id, n)
);
