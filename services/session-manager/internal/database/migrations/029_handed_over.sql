-- When the holder of a run released it at a safe point: its next holder goes on with it. Null for a run that is at work or over.
alter table runs add column released_at bigint;
-- 3: the results of a step at work when its run was released.
alter table run_steps drop constraint run_steps_part_check;
alter table run_steps add constraint run_steps_part_check check (part in (1, 2, 3));
