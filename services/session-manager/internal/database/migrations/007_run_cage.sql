-- Whether the root agent of a run works in a cage; pending until the harness has made it. What ran before there were cages had none.

alter table runs add column cage_status text not null default 'uncaged'
    check (cage_status in ('caged', 'uncaged', 'pending'));
