-- The versions of projects' prompts. Their texts are in prompts, by content.

create table prompt_versions (
    owner_user_id text   not null,
    project_id    text   not null,
    path          text   not null,             -- relative to the project's root
    version       int    not null,             -- counts from 1
    sha256        text   not null references prompts (sha256),
    author        text   not null default '',  -- the operator that wrote it through kaged, '' for a change of the file
    created_at    bigint not null,
    primary key (owner_user_id, project_id, path, version),
    foreign key (owner_user_id, project_id) references projects (owner_user_id, id) on delete cascade
);
