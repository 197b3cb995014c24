-- The logs of projects, for operators: a few weeks of lines, bounded by project. The record for good is audit.
create table project_logs (
    id            text     primary key,
    owner_user_id text     not null,
    project_id    text     not null,
    session_id    text     not null default '',
    ts            bigint   not null,
    level         smallint not null,       -- 0 debug, 1 info, 2 warn, 3 error
    source        text     not null,
    plugin_name   text     not null default '',
    message       text     not null,
    context       jsonb    not null default '{}'
);
create index project_logs_by_project on project_logs (owner_user_id, project_id, ts desc, id desc);
create index project_logs_by_age on project_logs (ts);
