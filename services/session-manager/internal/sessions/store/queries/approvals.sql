-- name: InsertApproval :exec
insert into approvals (id, session_id, run_id, tool_call_id, subject, requested_at, expires_at, invocation_id, owner_user_id)
select @id, s.id, @run_id, @tool_call_id, sqlc.arg('subject')::text::jsonb, @requested_at, @expires_at, @invocation_id, s.owner_user_id
from sessions s where s.id = @session_id;

-- name: ResolveApproval :exec
update approvals set state = @state, resolved_at = @at::bigint, resolved_by = nullif(@resolved_by::text, ''), comment = nullif(@comment::text, ''),
    standing_id = nullif(@standing_id::text, '')
where id = @id and state = 'pending';

-- name: CloseApprovals :exec
update approvals set state = 'closed', resolved_at = @at::bigint where run_id = @run_id and state = 'pending';

-- name: GetApproval :one
select id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals where session_id = @session_id and id = @id;

-- name: ListApprovals :many
select id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals
where session_id = @session_id and (@state::text = '' or state = @state) and (requested_at, id) < (@before_at::bigint, @before_id::text)
order by requested_at desc, id desc limit @row_limit;

-- name: WaitingApprovals :many
select id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals
where owner_user_id = @owner and state = 'pending' and (requested_at, id) < (@before_at::bigint, @before_id::text)
order by requested_at desc, id desc limit @row_limit;

-- name: ApprovalsOfOwner :many
select id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals
where owner_user_id = @owner and (@state::text = '' or state = @state) and (requested_at, id) < (@before_at::bigint, @before_id::text)
order by requested_at desc, id desc limit @row_limit;

-- name: PendingApprovals :many
select id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals where run_id = @run_id and state = 'pending' order by requested_at, id;

-- name: ApprovalsOfCalls :many
-- The newest approval of each call.
select distinct on (invocation_id, tool_call_id)
       id, session_id, run_id, tool_call_id, state, subject, requested_at, expires_at, coalesce(resolved_at, 0)::bigint as resolved_at,
       coalesce(resolved_by, '')::text as resolved_by, coalesce(comment, '')::text as comment, invocation_id, coalesce(standing_id, '')::text as standing_id
from approvals where run_id = @run_id and tool_call_id = any(@calls::text[])
order by invocation_id, tool_call_id, requested_at desc, id desc;
