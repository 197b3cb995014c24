-- The configurations of single operators, laid over the deployment's. An empty one stays, so that revisions never go back.
create table operator_config (
    owner      text   not null,
    set_by     text   not null check (set_by in ('operator', 'administrator')),
    document   text   not null,
    revision   bigint not null default 1,
    updated_at bigint not null,
    primary key (owner, set_by)
);
