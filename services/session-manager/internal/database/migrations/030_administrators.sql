-- What administrators of a shared deployment set for an operator. Null limits and budgets leave those of the configuration.
create table operator_rules (
    operator    text   primary key,
    limits      jsonb,
    budget      jsonb,
    disabled_at bigint,
    revision    bigint not null default 1
);
