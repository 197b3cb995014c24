-- API tokens of operators. Only the hash of a token is kept; revoking it deletes the row, and the audit record stays.
create table api_tokens (
    id            text   primary key,
    owner_user_id text   not null,
    name          text   not null,
    scope         text   not null check (scope in ('read', 'run', 'admin')),
    token_hash    bytea  not null unique,
    created_at    bigint not null,
    expires_at    bigint,
    last_used_at  bigint,
    unique (owner_user_id, name)
);
