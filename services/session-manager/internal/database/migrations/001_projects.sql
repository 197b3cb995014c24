-- Projects, the snapshots they compile to, and what gateways share about operators.
-- Times are milliseconds since the Unix epoch. Ids are ULIDs. Names are resolved in the schema session_manager.

create table projects (
    owner_user_id  text   not null,
    id             text   not null,
    path           text   not null,               -- every link resolved
    label          text,
    description    text   not null default '',
    dsl_version    int    not null default 1,
    -- As of the last evaluation; reading evaluates again, because files and bindings change without us.
    state          text   not null check (state in ('ready', 'pending', 'invalid')),
    diagnostics    jsonb  not null default '[]',  -- of the last compilation
    warnings       jsonb  not null default '[]',
    aliases        jsonb  not null default '[]',  -- [{name, used_by}] in use
    prompts        jsonb  not null default '[]',  -- [{name, used_by, sha256}] in use
    unresolved     jsonb  not null default '{}',  -- as of the last evaluation
    compiled_hash  text   not null default '',    -- the last snapshot that compiled, '' for none
    sources        bytea  not null default '',    -- JSON of the files it was compiled from, so that a changed rule of the operator applies
    rules_hash     text   not null default '',    -- the operator's tool rules it was compiled with
    workspace      text   not null default '',
    registered_at  bigint not null,
    updated_at     bigint not null,
    last_opened_at bigint,
    primary key (owner_user_id, id),
    unique (owner_user_id, path)
);

-- Snapshots are named by their content, so they are shared and never change.
create table snapshots (
    hash       text   primary key,
    compiled   bytea  not null,                   -- kaged.harness.v1.CompiledProject, deterministic
    created_at bigint not null
);

-- What prompts said when runs used them, by content.
create table prompts (
    sha256     text   primary key,
    content    text   not null,
    created_at bigint not null
);

-- The secret that cookies and CSRF tokens are derived from: one row for all replicas.
create table auth_epoch (
    singleton  boolean primary key default true check (singleton),
    secret     bytea   not null,
    rotated_at bigint  not null
);

-- A launch token lets one browser in. Only its hash is kept; using it deletes the row.
create table launch_tokens (
    token_hash bytea  primary key,
    created_at bigint not null,
    expires_at bigint not null
);
create index launch_tokens_expiry on launch_tokens (expires_at);
