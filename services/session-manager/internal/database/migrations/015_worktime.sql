-- How long a run has worked, without the time that an operator was asked.
alter table runs add column worked_ms bigint not null default 0;
