-- name: AppendAudit :exec
-- The payloads come as text: jsonb arrays would be parsed twice. A record that is there already stays as it is.
insert into audit (id, ts, event_type, user_id, request_id, project_id, session_id, run_id, agent_path, payload, part, part_at)
select r.id, r.ts, r.event_type, r.user_id, r.request_id, nullif(r.project_id, ''), nullif(r.session_id, ''), nullif(r.run_id, ''),
       r.agent_path, r.payload::jsonb, nullif(r.part, ''), case when r.part <> '' then r.part_at end
from (select unnest(@ids::text[]) as id, unnest(@tss::bigint[]) as ts, unnest(@event_types::text[]) as event_type,
             unnest(@user_ids::text[]) as user_id, unnest(@request_ids::text[]) as request_id,
             unnest(@project_ids::text[]) as project_id, unnest(@session_ids::text[]) as session_id,
             unnest(@run_ids::text[]) as run_id, unnest(@agent_paths::text[]) as agent_path,
             unnest(@payloads::text[]) as payload, unnest(@parts::text[]) as part, unnest(@parts_at::int[]) as part_at) r
on conflict do nothing;

-- name: AppendAuditPart :exec
-- All but the first of a month find the part, and write nothing.
insert into audit_parts (id, body)
select @id::text, @body::text where not exists (select from audit_parts where id = @id::text)
on conflict do nothing;

-- name: EnsureAuditPartitions :exec
select audit_ensure_partitions(@from_ms::bigint, @months::int);
