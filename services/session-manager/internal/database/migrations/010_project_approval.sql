-- The approved version of each project. The row's sources and compiled_hash are of that version; a project of before has an approved_hash of ''
-- and a compiled_hash until it is next used, one that waits for its first approval has neither.
alter table projects
    add column approved_hash    text   not null default '',
    add column approved_at      bigint not null default 0,
    add column approved_by      text   not null default '' check (approved_by in ('', 'operator', 'first_load', 'upgrade')),
    add column accepted_prompts jsonb  not null default '{}';  -- {path: sha256} of the accepted texts, which prompts holds
