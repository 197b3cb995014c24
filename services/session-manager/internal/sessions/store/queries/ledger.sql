-- name: InsertLedger :exec
-- The exit code -2147483648 means unknown.
insert into ledger (session_id, seq, at, run_id, invocation_id, step, agent_path, kind, path, sha256, command, exit_code, text, ref)
select @session_id, unnest(@seqs::bigint[]), unnest(@ats::bigint[]), @run_id, unnest(@invocation_ids::text[]), unnest(@steps::int[]),
       unnest(@agent_paths::text[]), unnest(@kinds::text[]), unnest(@paths::text[]), unnest(@sums::text[]), unnest(@commands::text[]),
       nullif(unnest(@exit_codes::int[]), -2147483648), unnest(@texts::text[]), unnest(@refs::bigint[]);

-- name: ListLedger :many
select l.seq, l.at, l.run_id, l.invocation_id, l.step, l.agent_path, l.kind, l.path, l.sha256, l.command, l.exit_code, l.text, l.ref,
       (l.kind = 'todo' and exists (select 1 from ledger d where d.session_id = l.session_id and d.kind = 'done' and d.ref = l.seq))::boolean as done
from ledger l
where l.session_id = @session_id and l.kind <> 'done' and (@kind::text = '' or l.kind = @kind) and (@agent_path::text = '' or l.agent_path = @agent_path)
  and l.seq > @after
order by l.seq limit @row_limit;

-- name: RelevantLedger :many
-- The newest entries of each kind.
select l.seq, l.at, l.run_id, l.invocation_id, l.step, l.agent_path, l.kind, l.path, l.sha256, l.command, l.exit_code, l.text, l.ref,
       (l.kind = 'todo' and exists (select 1 from ledger d where d.session_id = l.session_id and d.kind = 'done' and d.ref = l.seq))::boolean as done
from unnest(@kinds::text[]) as k (kind)
cross join lateral (select * from ledger e where e.session_id = @session_id and e.kind = k.kind order by e.seq desc limit @row_limit) l
order by l.seq;

-- name: LastLedgerSeq :one
select coalesce(max(seq), 0)::bigint from ledger where session_id = @session_id;
