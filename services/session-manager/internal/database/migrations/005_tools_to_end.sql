-- An ended session's workspace must hear of it, also if the process dies between the end and the news: until it has, the row says so.
alter table sessions add column tools_to_end boolean not null default false;
create index sessions_tools_to_end on sessions (ended_at) where tools_to_end;
