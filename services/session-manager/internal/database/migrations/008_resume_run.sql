-- The run that was cut off and is to go on in a new one, until that one begins or it is given up: the wish outlives the process that has it.
alter table sessions add column resume_run text;
create index sessions_to_resume on sessions (id) where resume_run is not null;
