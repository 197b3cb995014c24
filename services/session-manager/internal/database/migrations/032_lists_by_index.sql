-- compatible_from: 31
-- The lists and sums of an operator and of a project read indexes alone, so that their time does not grow with the rows of others. Each
-- index is built before its predecessor goes: readers wait for the exchange of names, not for the build.

-- Sums of use, by agent, by model and by the session's project.
create index spend_by_owner_new on spend (owner_user_id, at)
    include (session_id, agent_path, model, nano_usd, tokens, calls, estimated, settled_at);
drop index spend_by_owner;
alter index spend_by_owner_new rename to spend_by_owner;

-- The number of a project's sessions by state. Each change of the state writes all indexes anyway, because of sessions_at_work.
create index sessions_by_project_new on sessions (owner_user_id, project_id, created_at desc, id desc) include (state);
drop index sessions_by_project;
alter index sessions_by_project_new rename to sessions_by_project;

-- The use of a project's runs, and the number of those that ended, in the last day.
create index runs_of_project_new on runs (owner_user_id, project_id, created_at desc, id desc)
    include (tokens_in, tokens_out, cost_total);
drop index runs_of_project;
alter index runs_of_project_new rename to runs_of_project;
create index runs_ended on runs (owner_user_id, project_id, ended_at) where ended_at is not null and started_at is not null;
