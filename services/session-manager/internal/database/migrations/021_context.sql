-- The ledgers of sessions, and the feedback of operators on compactions.
create table ledger (
    session_id    text   not null references sessions (id),
    seq           bigint not null,                    -- from 1 in the session, given by the run
    at            bigint not null,
    run_id        text   not null,
    invocation_id text   not null default '',         -- '' for the root agent
    step          int    not null,
    agent_path    text   not null,
    kind          text   not null,
    path          text   not null default '',
    sha256        text   not null default '',
    command       text   not null default '',
    exit_code     int,                                -- null for an unknown one
    text          text   not null default '',
    ref           bigint not null default 0,          -- the todo that a done refers to
    primary key (session_id, seq)
);
create index ledger_by_kind on ledger (session_id, kind, seq);

alter table compactions alter column run_id drop not null; -- null for a manual one
alter table compactions add column summary_message_id text,
                        add column compactor jsonb,       -- the use of a summarizer
                        add column fired jsonb,           -- the hooks that took part
                        add column operator_flag text,
                        add column operator_notes text,
                        add column undone_at bigint;

alter table messages add column always_keep boolean not null default false;
