-- assert_slot refuses to start a run while as many of its operator's or its project's are at work as may be. Starts of one operator
-- wait for one another until their transactions end, on every replica, so that the count is exact. The run itself is not counted: a
-- change whose answer was lost is applied again.
create function assert_slot(of_owner text, of_project text, of_run text, per_project int, per_operator int) returns void
language plpgsql as $$
declare
    in_project int;
    in_all int;
begin
    perform pg_advisory_xact_lock(hashtextextended('slots:' || of_owner, 0));
    select count(*) filter (where project_id = of_project), count(*) into in_project, in_all
    from runs where owner_user_id = of_owner and state = 'running' and id <> of_run;
    if in_project >= per_project then
        raise exception 'no slot in the project' using errcode = 'KG002',
            detail = json_build_object('reason', 'per_project', 'running_count', in_project, 'limit', per_project)::text;
    end if;
    if in_all >= per_operator then
        raise exception 'no slot for the operator' using errcode = 'KG002',
            detail = json_build_object('reason', 'per_operator', 'running_count', in_all, 'limit', per_operator)::text;
    end if;
end $$;
