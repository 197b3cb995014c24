-- The issue of its project that a session works on, and with it a run: one run at most works on an issue, of whatever session.
alter table sessions add column issue_number bigint check (issue_number > 0);
alter table runs add column issue_number bigint check (issue_number > 0);
create unique index runs_one_on_issue on runs (owner_user_id, project_id, issue_number) where state in ('pending', 'running');
