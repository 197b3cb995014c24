-- Compactions of the conversations of agents, and the parts of stored messages that those of root agents superseded.
create table compactions (
    id              text    primary key,
    session_id      text    not null references sessions (id),
    run_id          text    not null references runs (id),
    invocation_id   text    not null default '',      -- '' for the root agent
    agent_path      text    not null,
    trigger         text    not null,
    strategy        text    not null,
    before_tokens   bigint  not null,
    after_tokens    bigint  not null,
    window_tokens   bigint  not null,
    upper_threshold double precision not null,
    lower_threshold double precision not null,
    turns           int     not null,
    messages        int     not null,
    summary         text    not null,
    fallback        text    not null default '',      -- the strategy in place of a failed one
    reason          text    not null default '',      -- of the fallback
    duration_ms     bigint  not null,
    created_at      bigint  not null
);
create index compactions_by_session on compactions (session_id, created_at desc, id desc);

-- A message may be that of a run at work, which is written at the end of the run.
create table compaction_spans (
    compaction_id text not null references compactions (id),
    n             int  not null,
    session_id    text not null,
    message_id    text not null,
    from_step     int  not null,
    to_step       int  not null,                      -- 0 and 0 for all of the message
    primary key (compaction_id, n)
);
create index compaction_spans_by_session on compaction_spans (session_id, message_id);
