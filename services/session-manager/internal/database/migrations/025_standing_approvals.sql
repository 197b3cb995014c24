-- Approvals of an operator that cover later calls too: of one session, or of all of the project in its folder.
create table standing_approvals (
    id            text   primary key,
    owner_user_id text   not null,
    project_id    text   not null,
    project_path  text   not null,
    session_id    text   references sessions (id),   -- null: of the project
    approval_id   text   not null,                   -- the request that was answered so
    agent_path    text   not null,
    tool          text   not null,
    kind          text   not null check (kind in ('command', 'words', 'files')),
    words         int    not null default 0,         -- how many first words of the command must be the same
    subject       jsonb  not null,                   -- what was shown
    created_at    bigint not null,
    created_by    text   not null,
    revoked_at    bigint,
    revoked_by    text,
    used          bigint not null default 0,
    last_used_at  bigint
);
create index standing_in_force on standing_approvals (owner_user_id, project_id, agent_path, tool) where revoked_at is null;
create index standing_of_operator on standing_approvals (owner_user_id, created_at desc, id desc);

alter table approvals add column standing_id text;
