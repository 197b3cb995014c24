-- Workspaces of a deployment that operators share: each serves one operator at a time. Rows are made from the configuration, which also has
-- their addresses.
create table workspaces (
    name        text   primary key,
    operator    text   unique,
    state       text   not null default 'active' check (state in ('active', 'draining')),
    -- It grows with each operator: the issue service believes the highest one that it was told.
    assignment  bigint not null default 0,
    assigned_at bigint
);
