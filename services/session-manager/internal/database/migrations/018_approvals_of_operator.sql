-- Requests for approval over all sessions of an operator.
alter table approvals add column owner_user_id text not null default '';
update approvals a set owner_user_id = s.owner_user_id from sessions s where s.id = a.session_id;
create index approvals_by_owner on approvals (owner_user_id, requested_at desc, id desc);
create index approvals_waiting on approvals (owner_user_id, requested_at desc, id desc) where state = 'pending';
