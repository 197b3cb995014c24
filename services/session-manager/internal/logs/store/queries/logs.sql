-- name: AppendLogs :many
-- The owner and the project come from the entry's session or run, else from the entry. Entries without them are dropped.
insert into project_logs (id, owner_user_id, project_id, session_id, ts, level, source, plugin_name, message, context)
select e.id, coalesce(s.owner_user_id, r.owner_user_id, e.owner), coalesce(s.project_id, r.project_id, e.project),
       coalesce(s.id, r.session_id, ''), e.ts, e.level, e.source, e.plugin_name, e.message, e.context::jsonb
from (select unnest(@ids::text[]) as id, unnest(@owners::text[]) as owner, unnest(@projects::text[]) as project,
             unnest(@sessions::text[]) as session, unnest(@runs::text[]) as run, unnest(@tss::bigint[]) as ts,
             unnest(@levels::smallint[]) as level, unnest(@sources::text[]) as source, unnest(@plugins::text[]) as plugin_name,
             unnest(@messages::text[]) as message, unnest(@contexts::text[]) as context) e
left join sessions s on s.id = e.session
left join runs r on r.id = e.run and e.session = ''
where coalesce(s.owner_user_id, r.owner_user_id, e.owner) <> '' and coalesce(s.project_id, r.project_id, e.project) <> ''
on conflict do nothing
returning id, owner_user_id, project_id, session_id;

-- name: ListLogs :many
-- The entries before a time and id, newest first.
select id, ts, level, source, plugin_name, message, session_id, context
from project_logs
where owner_user_id = @owner and project_id = @project and (ts, id) < (@before_ts::bigint, @before_id::text) and ts >= @since
  and level >= @level and (@source::text = '' or source = @source) and (@session::text = '' or session_id = @session)
order by ts desc, id desc
limit @most;

-- name: DropOldLogs :execrows
delete from project_logs where id in (select l.id from project_logs l where l.ts < @before order by l.ts limit @most);

-- name: DropManyLogs :execrows
-- Deletes the oldest entries of projects with more than kept entries.
delete from project_logs where id in (
    select n.id from (
        select l.id, row_number() over (partition by l.owner_user_id, l.project_id order by l.ts desc, l.id desc) as place
        from project_logs l
    ) n where n.place > @kept::bigint
);
