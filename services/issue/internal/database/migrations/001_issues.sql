-- Issues of projects, their updates and their todos. Times are milliseconds since the Unix epoch. Ids are ULIDs.
-- Rows are never deleted: the services' role may not.

-- The last number of each project. A number is taken by the transaction that files its issue, so none is lost.
create table counters (
    owner_user_id text   not null,
    project_id    text   not null,
    last_number   bigint not null check (last_number > 0),
    primary key (owner_user_id, project_id)
);

create table issues (
    id             text     primary key,
    owner_user_id  text     not null,
    project_id     text     not null,
    number         bigint   not null,
    title          text     not null,
    body           text     not null,
    original_body  text,                            -- before the first edit of the body
    status         text     not null check (status in ('open', 'triaged', 'assigned', 'in_progress', 'resolved', 'rejected', 'reopened')),
    assignment     text,
    created_by     text     not null,
    created_at     bigint   not null,
    updated_at     bigint   not null,
    resolved_at    bigint,
    resolved_by    text,
    version        bigint   not null default 1,     -- of title, body, status and assignment
    imported_from  text,
    client_id      text,
    content_hash   bytea,                           -- of title and body as they were filed with client_id
    -- The words of title and body, folded by the service since the locale of a database may be C, and one word for the project, so that
    -- one index answers a search in one project.
    words          tsvector not null,
    folded_title   text     not null,
    unique (owner_user_id, project_id, number),
    unique (owner_user_id, project_id, client_id),
    foreign key (owner_user_id, project_id) references counters (owner_user_id, project_id)
);
create index issues_by_status on issues (owner_user_id, project_id, status, number desc);
create index issues_not_ended on issues (owner_user_id, project_id, number desc) where status not in ('resolved', 'rejected');
create index issues_words on issues using gin (words);

-- Parts of words in titles. pg_trgm is in the contrib package of PostgreSQL; without it the same queries work and
-- are slower in large projects.
do $$
begin
    create extension if not exists pg_trgm with schema issue;
exception when insufficient_privilege or undefined_file or feature_not_supported then
    raise notice 'pg_trgm is not available: searching for parts of words reads all titles of a project';
end $$;
do $$
declare
    found_in text := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm');
begin
    if found_in is not null then
        execute format('create index issues_titles on issues using gin (folded_title %I.gin_trgm_ops)', found_in);
    end if;
end $$;

-- What happened to an issue; seq is its order, because the issue's row is locked while one is written.
create table issue_updates (
    seq        bigint generated always as identity primary key,
    id         text   not null unique,
    issue_id   text   not null references issues (id),
    author     text   not null,
    kind       text   not null check (kind in ('comment', 'status_change', 'title_edit', 'body_edit', 'assignment_change')),
    body       text   not null default '',
    metadata   jsonb  not null default '{}',
    visibility text   not null default 'all' check (visibility in ('all', 'operator_only')),
    created_at bigint not null
);
create index issue_updates_of on issue_updates (issue_id, seq);

create table issue_todos (
    id           text   primary key,
    issue_id     text   not null references issues (id),
    position     int    not null check (position >= 0),
    content      text   not null,
    status       text   not null check (status in ('pending', 'in_progress', 'completed', 'abandoned')),
    kind         text   not null check (kind in ('step', 'criterion')),
    phase        text,
    notes        jsonb  not null default '[]',
    origin_agent text,
    created_at   bigint not null,
    completed_at bigint,
    verified_at  bigint,
    verified_by  text,
    unique (issue_id, position)
);
create unique index issue_todos_at_work on issue_todos (issue_id) where status = 'in_progress';

-- Updates never change, and rows are never deleted.
do $$
begin
    if exists (select from pg_roles where rolname = 'kaged_app') then
        revoke delete, truncate on counters, issues, issue_updates, issue_todos from kaged_app;
        revoke update on issue_updates from kaged_app;
    end if;
end $$;
