-- When a session's first run began, when the hooks for idle sessions were last called, and what hooks add to its system prompt.
alter table sessions add column recalled_at bigint, add column last_idle_fire bigint, add column start_injections jsonb;
-- Sessions of before had their first run.
update sessions set recalled_at = updated_at where exists (select from runs where runs.session_id = sessions.id);
-- A call of a compaction between runs stands under the id of the compaction.
alter table spend drop constraint spend_run_id_fkey;
