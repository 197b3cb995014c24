-- The session_manager schema as the last version before approvals left it (migration 9; its parent in history is the commit
-- "dsl: say what one cage grants beyond another"): two projects, each with a session and a completed run.
-- Made by pg_dump --inserts --schema=session_manager, without sign-in secrets and leases.
-- @DIR@ stands for the folder of the projects, @OPERATOR@ for the operator.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA session_manager;
ALTER SCHEMA session_manager OWNER TO kaged_owner;
CREATE FUNCTION session_manager.assert_lease(of_session text, by_holder text, with_epoch bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    perform set_config('lock_timeout', '2s', true);
    perform from session_leases where session_id = of_session and holder = by_holder and epoch = with_epoch for key share;
    if not found then
        raise exception 'the lease of session % is no longer held', of_session using errcode = 'KG001';
    end if;
end $$;
ALTER FUNCTION session_manager.assert_lease(of_session text, by_holder text, with_epoch bigint) OWNER TO kaged_owner;
CREATE FUNCTION session_manager.audit_ensure_partitions(from_ms bigint, months integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'session_manager', 'pg_temp'
    AS $$
declare
    start_at timestamp := date_trunc('month', to_timestamp(from_ms / 1000.0) at time zone 'UTC');
    month_at timestamp;
    part     text;
begin
    perform pg_advisory_xact_lock(hashtext('session_manager.audit_ensure_partitions'));
    for i in 0 .. least(greatest(months, 1), 24) - 1 loop
        month_at := start_at + make_interval(months => i);
        part := 'audit_' || to_char(month_at, 'YYYYMM');
        continue when to_regclass('session_manager.' || part) is not null;
        begin
            execute format('create table %I partition of audit for values from (%s) to (%s)', part,
                (extract(epoch from month_at) * 1000)::bigint,
                (extract(epoch from month_at + interval '1 month') * 1000)::bigint);
            perform audit_seal(part::regclass);
        exception when check_violation then
            null; -- Records of that month are in the default partition already and may not be moved.
        end;
    end loop;
end $$;
ALTER FUNCTION session_manager.audit_ensure_partitions(from_ms bigint, months integer) OWNER TO kaged_owner;
CREATE FUNCTION session_manager.audit_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    raise exception 'audit is append-only' using errcode = 'insufficient_privilege';
end $$;
ALTER FUNCTION session_manager.audit_refuse_change() OWNER TO kaged_owner;
CREATE FUNCTION session_manager.audit_seal(target regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if exists (select from pg_roles where rolname = 'kaged_app') then
        execute format('revoke update, delete, truncate on table %s from kaged_app', target);
    end if;
end $$;
ALTER FUNCTION session_manager.audit_seal(target regclass) OWNER TO kaged_owner;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE session_manager.approvals (
    id text NOT NULL,
    session_id text NOT NULL,
    run_id text NOT NULL,
    tool_call_id text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    subject jsonb NOT NULL,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    resolved_at bigint,
    resolved_by text,
    comment text,
    CONSTRAINT approvals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'expired'::text, 'closed'::text])))
);
ALTER TABLE session_manager.approvals OWNER TO kaged_owner;
CREATE TABLE session_manager.audit (
    id text NOT NULL,
    ts bigint NOT NULL,
    event_type text NOT NULL,
    user_id text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    project_id text,
    session_id text,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL
)
PARTITION BY RANGE (ts);
ALTER TABLE session_manager.audit OWNER TO kaged_owner;
CREATE TABLE session_manager.audit_202611 (
    id text NOT NULL,
    ts bigint NOT NULL,
    event_type text NOT NULL,
    user_id text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    project_id text,
    session_id text,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE session_manager.audit_202611 OWNER TO kaged_owner;
CREATE TABLE session_manager.audit_202612 (
    id text NOT NULL,
    ts bigint NOT NULL,
    event_type text NOT NULL,
    user_id text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    project_id text,
    session_id text,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE session_manager.audit_202612 OWNER TO kaged_owner;
CREATE TABLE session_manager.audit_202701 (
    id text NOT NULL,
    ts bigint NOT NULL,
    event_type text NOT NULL,
    user_id text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    project_id text,
    session_id text,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE session_manager.audit_202701 OWNER TO kaged_owner;
CREATE TABLE session_manager.audit_default (
    id text NOT NULL,
    ts bigint NOT NULL,
    event_type text NOT NULL,
    user_id text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    project_id text,
    session_id text,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE session_manager.audit_default OWNER TO kaged_owner;
CREATE TABLE session_manager.auth_epoch (
    singleton boolean DEFAULT true NOT NULL,
    secret bytea NOT NULL,
    rotated_at bigint NOT NULL,
    CONSTRAINT auth_epoch_singleton_check CHECK (singleton)
);
ALTER TABLE session_manager.auth_epoch OWNER TO kaged_owner;
CREATE TABLE session_manager.frame_outbox (
    session_id text NOT NULL,
    n bigint NOT NULL,
    channel text NOT NULL,
    kind text NOT NULL,
    msg_id text NOT NULL,
    payload bytea NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE session_manager.frame_outbox OWNER TO kaged_owner;
CREATE TABLE session_manager.launch_tokens (
    token_hash bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
ALTER TABLE session_manager.launch_tokens OWNER TO kaged_owner;
CREATE TABLE session_manager.messages (
    id text NOT NULL,
    session_id text NOT NULL,
    ordinal bigint NOT NULL,
    role text NOT NULL,
    content text DEFAULT ''::text NOT NULL,
    blocks jsonb,
    metadata jsonb,
    run_id text,
    agent_path text DEFAULT ''::text NOT NULL,
    subagent_invocation_id text,
    superseded boolean DEFAULT false NOT NULL,
    cost_total double precision,
    created_at bigint NOT NULL
);
ALTER TABLE session_manager.messages OWNER TO kaged_owner;
CREATE TABLE session_manager.projects (
    owner_user_id text NOT NULL,
    id text NOT NULL,
    path text NOT NULL,
    label text,
    description text DEFAULT ''::text NOT NULL,
    dsl_version integer DEFAULT 1 NOT NULL,
    state text NOT NULL,
    diagnostics jsonb DEFAULT '[]'::jsonb NOT NULL,
    warnings jsonb DEFAULT '[]'::jsonb NOT NULL,
    aliases jsonb DEFAULT '[]'::jsonb NOT NULL,
    prompts jsonb DEFAULT '[]'::jsonb NOT NULL,
    unresolved jsonb DEFAULT '{}'::jsonb NOT NULL,
    compiled_hash text DEFAULT ''::text NOT NULL,
    sources bytea DEFAULT '\x'::bytea NOT NULL,
    rules_hash text DEFAULT ''::text NOT NULL,
    workspace text DEFAULT ''::text NOT NULL,
    registered_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    last_opened_at bigint,
    CONSTRAINT projects_state_check CHECK ((state = ANY (ARRAY['ready'::text, 'pending'::text, 'invalid'::text])))
);
ALTER TABLE session_manager.projects OWNER TO kaged_owner;
CREATE TABLE session_manager.prompts (
    sha256 text NOT NULL,
    content text NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE session_manager.prompts OWNER TO kaged_owner;
CREATE TABLE session_manager.run_steps (
    run_id text NOT NULL,
    step integer NOT NULL,
    part smallint NOT NULL,
    body bytea NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT run_steps_part_check CHECK ((part = ANY (ARRAY[1, 2])))
);
ALTER TABLE session_manager.run_steps OWNER TO kaged_owner;
CREATE TABLE session_manager.runs (
    id text NOT NULL,
    session_id text NOT NULL,
    owner_user_id text NOT NULL,
    project_id text NOT NULL,
    trigger_message_id text NOT NULL,
    message_id text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    outcome text,
    stop_reason text,
    error jsonb,
    tokens_in bigint DEFAULT 0 NOT NULL,
    tokens_out bigint DEFAULT 0 NOT NULL,
    cost_total double precision,
    steps integer DEFAULT 0 NOT NULL,
    compiled_hash text NOT NULL,
    prompt_hashes jsonb DEFAULT '{}'::jsonb NOT NULL,
    cancel_requested_at bigint,
    created_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint,
    cage_status text DEFAULT 'uncaged'::text NOT NULL,
    CONSTRAINT runs_cage_status_check CHECK ((cage_status = ANY (ARRAY['caged'::text, 'uncaged'::text, 'pending'::text]))),
    CONSTRAINT runs_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'running'::text, 'completed'::text, 'paused'::text, 'failed'::text, 'cancelled'::text])))
);
ALTER TABLE session_manager.runs OWNER TO kaged_owner;
CREATE TABLE session_manager.schema_version (
    version integer NOT NULL
);
ALTER TABLE session_manager.schema_version OWNER TO kaged_owner;
CREATE TABLE session_manager.session_channel_seq (
    session_id text NOT NULL,
    channel text NOT NULL,
    seq bigint NOT NULL
);
ALTER TABLE session_manager.session_channel_seq OWNER TO kaged_owner;
CREATE TABLE session_manager.session_leases (
    session_id text NOT NULL,
    holder text NOT NULL,
    node text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    expires_at bigint NOT NULL
);
ALTER TABLE session_manager.session_leases OWNER TO kaged_owner;
CREATE TABLE session_manager.sessions (
    id text NOT NULL,
    owner_user_id text NOT NULL,
    project_id text NOT NULL,
    label text,
    state text DEFAULT 'idle'::text NOT NULL,
    blocked_reason text,
    model_override text,
    max_steps_override integer,
    max_output_tokens_override integer,
    compiled_hash text NOT NULL,
    project_path text NOT NULL,
    workspace text DEFAULT ''::text NOT NULL,
    resume_from text,
    next_ordinal bigint DEFAULT 1 NOT NULL,
    audit_head_hash text DEFAULT ''::text NOT NULL,
    audit_head_items integer DEFAULT 0 NOT NULL,
    created_by text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    ended_at bigint,
    tools_to_end boolean DEFAULT false NOT NULL,
    resume_run text,
    CONSTRAINT sessions_state_check CHECK ((state = ANY (ARRAY['idle'::text, 'queued'::text, 'running'::text, 'paused'::text, 'failed'::text, 'ended'::text])))
);
ALTER TABLE session_manager.sessions OWNER TO kaged_owner;
CREATE TABLE session_manager.snapshots (
    hash text NOT NULL,
    compiled bytea NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE session_manager.snapshots OWNER TO kaged_owner;
ALTER TABLE ONLY session_manager.audit ATTACH PARTITION session_manager.audit_202611 FOR VALUES FROM ('1793491200000') TO ('1796083200000');
ALTER TABLE ONLY session_manager.audit ATTACH PARTITION session_manager.audit_202612 FOR VALUES FROM ('1796083200000') TO ('1798761600000');
ALTER TABLE ONLY session_manager.audit ATTACH PARTITION session_manager.audit_202701 FOR VALUES FROM ('1798761600000') TO ('1801440000000');
ALTER TABLE ONLY session_manager.audit ATTACH PARTITION session_manager.audit_default DEFAULT;
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBJV55GT8JBHXFZTHHR3C', 1795382692710, 'auth.epoch_rotated', '', '', NULL, NULL, NULL, '', '{}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBJZYGE5HFFB07CYZKPGT', 1795382692862, 'auth.launch', '@OPERATOR@', '01M82JBJZW3EQ6T2T4ET8J4BJT', NULL, NULL, NULL, '', '{"remote": "127.0.0.1:59764", "auth_mode": "loopback"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK09X56GR6DV8DZECBXP', 1795382692873, 'project.loaded', '@OPERATOR@', '01M82JBK00JX9FD1XV3A2TZ8RC', 'kept', NULL, NULL, '', '{"path": "@DIR@/kept", "state": "ready", "compiled_hash": "d3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK0T2497YS6PJT9PHGNJ', 1795382692890, 'session.created', '@OPERATOR@', '01M82JBK0RQ2Q5V8JAQDN2RHQK', 'kept', '01M82JBK0T2497YS6PJPR3XMFH', NULL, '', '{"label": "", "compiled_hash": "d3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK1WHHVEXCSAFMA97B5X', 1795382692924, 'message.posted', '@OPERATOR@', '01M82JBK1MJRA439J7CJMNSKDA', 'kept', '01M82JBK0T2497YS6PJPR3XMFH', '01M82JBK1NM1RQ8P1DCXKPSM5J', '', '{"bytes": 17, "message_id": "01M82JBK1NM1RQ8P1DCX1WHCNC"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK29J81C9008PSRXKVAN', 1795382692927, 'agent.pre_generation', '@OPERATOR@', '01M82JBK1MJRA439J7CJMNSKDA', 'kept', '01M82JBK0T2497YS6PJPR3XMFH', '01M82JBK1NM1RQ8P1DCXKPSM5J', 'primary', '{"hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "step": 1, "model": "demo", "provider": "rehearsal", "base_hash": null, "new_items": [{"kind": "params", "model": "smart-generalist", "max_output_tokens": 0}, {"kind": "system", "system": ["You work.\n"]}, {"kind": "tools", "tools": [{"name": "file.read", "schema": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string", "description": "Project-relative path to read."}, "limit": {"type": "integer", "default": 2000, "minimum": 1, "description": "How many lines to return at most."}, "offset": {"type": "integer", "default": 1, "minimum": 1, "description": "Line to start from; the first line is 1."}}, "additionalProperties": false}, "description": "Read a file, or list a folder.\n\n- Returns up to 2000 lines from `offset` (the first line is 1), each as `N: text`, and at most 512 KiB. When `truncated` is true, continue with `offset` set to `next_offset`.\n- Lines longer than 2000 characters are cut and end in `[truncated]`.\n- A binary file is described by its size and MIME type instead of its content.\n- A folder is listed one entry per line, subfolders ending in `/`.\n- Read a file before you change it: edits and overwrites need it, and a file that has changed since must be read again."}, {"name": "file.create", "schema": {"type": "object", "required": ["path", "content"], "properties": {"path": {"type": "string", "description": "Project-relative path."}, "content": {"type": "string", "description": "The whole content of the file."}}, "additionalProperties": false}, "description": "Create a new file. Fails with `file_exists` if there is already something at the path.\n\n- Missing parent folders are made.\n- Returns the number of bytes written and a unified diff."}]}, {"kind": "message", "role": "user", "blocks": [{"text": "Before approvals.", "type": "text"}]}], "item_count": 4, "tool_count": 2, "message_count": 1}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK29J81C9008PTNEPDQG', 1795382692937, 'agent.pre_generation_step', '@OPERATOR@', '01M82JBK1MJRA439J7CJMNSKDA', 'kept', '01M82JBK0T2497YS6PJPR3XMFH', '01M82JBK1NM1RQ8P1DCXKPSM5J', 'primary', '{"hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "step": 1, "model": "demo", "provider": "rehearsal", "base_hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "new_items": [], "item_count": 4, "tool_count": 2, "message_count": 1}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK2A90KH54B920P37B59', 1795382692938, 'run.ended', '@OPERATOR@', '01M82JBK1MJRA439J7CJMNSKDA', 'kept', '01M82JBK0T2497YS6PJPR3XMFH', '01M82JBK1NM1RQ8P1DCXKPSM5J', 'primary', '{"steps": 1, "outcome": "completed", "tokens_in": 0, "message_id": "01M82JBK1NM1RQ8P1DCYJJHWJV", "tokens_out": 0, "stop_reason": "stop"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK5SX65QZ82ZZY1ASWSA', 1795382693048, 'auth.launch', '@OPERATOR@', '01M82JBK5MDTQSYG7RBR5SFWC6', NULL, NULL, NULL, '', '{"remote": "127.0.0.1:59778", "auth_mode": "loopback"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK5ZY5R0WGFGC26KTJDK', 1795382693055, 'project.loaded', '@OPERATOR@', '01M82JBK5WVV4FET6FW1VPHTNH', 'widened', NULL, NULL, '', '{"path": "@DIR@/widened", "state": "ready", "compiled_hash": "22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK67JEHC9Y8PV273NGJD', 1795382693063, 'session.created', '@OPERATOR@', '01M82JBK61GS09925W47PKVK03', 'widened', '01M82JBK67JEHC9Y8PV26W8NVX', NULL, '', '{"label": "", "compiled_hash": "22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK6XAV4F0EJEAE9XMEHP', 1795382693085, 'message.posted', '@OPERATOR@', '01M82JBK6V95G757CKCW79MB8S', 'widened', '01M82JBK67JEHC9Y8PV26W8NVX', '01M82JBK6W1EPT64P1XBSZN6X0', '', '{"bytes": 17, "message_id": "01M82JBK6W1EPT64P1X9BYTNE1"}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK71PATGE88ZHWVAZ94M', 1795382693085, 'agent.pre_generation', '@OPERATOR@', '01M82JBK6V95G757CKCW79MB8S', 'widened', '01M82JBK67JEHC9Y8PV26W8NVX', '01M82JBK6W1EPT64P1XBSZN6X0', 'primary', '{"hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "step": 1, "model": "demo", "provider": "rehearsal", "base_hash": null, "new_items": [{"kind": "params", "model": "smart-generalist", "max_output_tokens": 0}, {"kind": "system", "system": ["You work.\n"]}, {"kind": "tools", "tools": [{"name": "file.read", "schema": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string", "description": "Project-relative path to read."}, "limit": {"type": "integer", "default": 2000, "minimum": 1, "description": "How many lines to return at most."}, "offset": {"type": "integer", "default": 1, "minimum": 1, "description": "Line to start from; the first line is 1."}}, "additionalProperties": false}, "description": "Read a file, or list a folder.\n\n- Returns up to 2000 lines from `offset` (the first line is 1), each as `N: text`, and at most 512 KiB. When `truncated` is true, continue with `offset` set to `next_offset`.\n- Lines longer than 2000 characters are cut and end in `[truncated]`.\n- A binary file is described by its size and MIME type instead of its content.\n- A folder is listed one entry per line, subfolders ending in `/`.\n- Read a file before you change it: edits and overwrites need it, and a file that has changed since must be read again."}, {"name": "file.create", "schema": {"type": "object", "required": ["path", "content"], "properties": {"path": {"type": "string", "description": "Project-relative path."}, "content": {"type": "string", "description": "The whole content of the file."}}, "additionalProperties": false}, "description": "Create a new file. Fails with `file_exists` if there is already something at the path.\n\n- Missing parent folders are made.\n- Returns the number of bytes written and a unified diff."}]}, {"kind": "message", "role": "user", "blocks": [{"text": "Before approvals.", "type": "text"}]}], "item_count": 4, "tool_count": 2, "message_count": 1}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK71PATGE88ZHYHDGZ31', 1795382693089, 'agent.pre_generation_step', '@OPERATOR@', '01M82JBK6V95G757CKCW79MB8S', 'widened', '01M82JBK67JEHC9Y8PV26W8NVX', '01M82JBK6W1EPT64P1XBSZN6X0', 'primary', '{"hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "step": 1, "model": "demo", "provider": "rehearsal", "base_hash": "f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a", "new_items": [], "item_count": 4, "tool_count": 2, "message_count": 1}');
INSERT INTO session_manager.audit_202611 VALUES ('01M82JBK72JCSEC2D5CY9775GE', 1795382693090, 'run.ended', '@OPERATOR@', '01M82JBK6V95G757CKCW79MB8S', 'widened', '01M82JBK67JEHC9Y8PV26W8NVX', '01M82JBK6W1EPT64P1XBSZN6X0', 'primary', '{"steps": 1, "outcome": "completed", "tokens_in": 0, "message_id": "01M82JBK6W1EPT64P1XCV4GVHE", "tokens_out": 0, "stop_reason": "stop"}');
INSERT INTO session_manager.messages VALUES ('01M82JBK1NM1RQ8P1DCX1WHCNC', '01M82JBK0T2497YS6PJPR3XMFH', 1, 'operator', 'Before approvals.', NULL, NULL, '01M82JBK1NM1RQ8P1DCXKPSM5J', '', NULL, false, NULL, 1795382692924);
INSERT INTO session_manager.messages VALUES ('01M82JBK1NM1RQ8P1DCYJJHWJV', '01M82JBK0T2497YS6PJPR3XMFH', 2, 'primary', 'Done.', '[{"text": "Done.", "type": "text"}]', '{"model": "demo", "stats": {"tps": 0, "cost": null, "ttft": 0.025, "duration": 0.044}, "provider": "rehearsal", "stop_reason": "stop"}', '01M82JBK1NM1RQ8P1DCXKPSM5J', 'primary', NULL, false, NULL, 1795382692938);
INSERT INTO session_manager.messages VALUES ('01M82JBK6W1EPT64P1X9BYTNE1', '01M82JBK67JEHC9Y8PV26W8NVX', 1, 'operator', 'Before approvals.', NULL, NULL, '01M82JBK6W1EPT64P1XBSZN6X0', '', NULL, false, NULL, 1795382693085);
INSERT INTO session_manager.messages VALUES ('01M82JBK6W1EPT64P1XCV4GVHE', '01M82JBK67JEHC9Y8PV26W8NVX', 2, 'primary', 'Done.', '[{"text": "Done.", "type": "text"}]', '{"model": "demo", "stats": {"tps": 0, "cost": null, "ttft": 0.006, "duration": 0.012}, "provider": "rehearsal", "stop_reason": "stop"}', '01M82JBK6W1EPT64P1XBSZN6X0', 'primary', NULL, false, NULL, 1795382693090);
INSERT INTO session_manager.projects VALUES ('@OPERATOR@', 'kept', '@DIR@/kept', NULL, '', 1, 'ready', '[]', '[]', '[{"name": "smart-generalist", "used_by": ["primary"]}]', '[{"name": "prompt.md", "sha256": "cf0214021af7ca53ff9ea52d1e6dd17b8963a4268fcabe4c7af3438962b1fcb7", "used_by": ["primary.system_prompt"]}]', '{}', 'd3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f', '\x5b7b2270617468223a222e6b616765642f70726f6a6563742e79616d6c222c2270726573656e74223a747275652c22636f6e74656e74223a22646d567963326c76626a6f674d517077636d39715a574e304f6942725a584230436e427961573168636e6b36436941676257396b5a57773649484e7459584a304c57646c626d5679595778706333514b4943427a65584e305a57316663484a76625842304f6941754c33427962323177644335745a416f67494852766232787a4f69423749696f694f6942375a573568596d786c5a446f675a6d4673633256394c43426d6157786c4c6e4a6c595751364948746c626d46696247566b4f694230636e566c665377675a6d6c735a53356a636d5668644755364948746c626d46696247566b4f694230636e566c6658304b4943426a5957646c4f69426b61584e68596d786c5a416f3d227d2c7b2270617468223a222e6b616765642f70726f6a6563742e6c6f63616c2e79616d6c227d2c7b2270617468223a2270726f6d70742e6d64222c2270726573656e74223a747275657d5d', '9948ddf19fb26cec2b878a0c4d7be748f7b132a2c8b09c3bca5f3a2281703cf8', '', 1795382692870, 1795382692870, 1795382692893);
INSERT INTO session_manager.projects VALUES ('@OPERATOR@', 'widened', '@DIR@/widened', NULL, '', 1, 'ready', '[]', '[]', '[{"name": "smart-generalist", "used_by": ["primary"]}]', '[{"name": "prompt.md", "sha256": "cf0214021af7ca53ff9ea52d1e6dd17b8963a4268fcabe4c7af3438962b1fcb7", "used_by": ["primary.system_prompt"]}]', '{}', '22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525', '\x5b7b2270617468223a222e6b616765642f70726f6a6563742e79616d6c222c2270726573656e74223a747275652c22636f6e74656e74223a22646d567963326c76626a6f674d517077636d39715a574e304f6942336157526c626d566b436e427961573168636e6b36436941676257396b5a57773649484e7459584a304c57646c626d5679595778706333514b4943427a65584e305a57316663484a76625842304f6941754c33427962323177644335745a416f67494852766232787a4f69423749696f694f6942375a573568596d786c5a446f675a6d4673633256394c43426d6157786c4c6e4a6c595751364948746c626d46696247566b4f694230636e566c665377675a6d6c735a53356a636d5668644755364948746c626d46696247566b4f694230636e566c6658304b4943426a5957646c4f69426b61584e68596d786c5a416f3d227d2c7b2270617468223a222e6b616765642f70726f6a6563742e6c6f63616c2e79616d6c227d2c7b2270617468223a2270726f6d70742e6d64222c2270726573656e74223a747275657d5d', '9948ddf19fb26cec2b878a0c4d7be748f7b132a2c8b09c3bca5f3a2281703cf8', '', 1795382693053, 1795382693053, 1795382693068);
INSERT INTO session_manager.prompts VALUES ('cf0214021af7ca53ff9ea52d1e6dd17b8963a4268fcabe4c7af3438962b1fcb7', 'You work.
', 1795382692918);
INSERT INTO session_manager.run_steps VALUES ('01M82JBK1NM1RQ8P1DCXKPSM5J', 1, 1, '\x080112090a070a05446f6e652e180122002a12099a9999999999993f11ba490c022b87a63f320972656865617273616c3a0464656d6f', 1795382692938);
INSERT INTO session_manager.run_steps VALUES ('01M82JBK6W1EPT64P1XBSZN6X0', 1, 1, '\x080112090a070a05446f6e652e180122002a1209fa7e6abc7493783f11fa7e6abc7493883f320972656865617273616c3a0464656d6f', 1795382693090);
INSERT INTO session_manager.runs VALUES ('01M82JBK1NM1RQ8P1DCXKPSM5J', '01M82JBK0T2497YS6PJPR3XMFH', '@OPERATOR@', 'kept', '01M82JBK1NM1RQ8P1DCX1WHCNC', '01M82JBK1NM1RQ8P1DCYJJHWJV', 'completed', 'completed', 'stop', NULL, 0, 0, NULL, 1, 'd3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f', '{"prompt.md": "cf0214021af7ca53ff9ea52d1e6dd17b8963a4268fcabe4c7af3438962b1fcb7"}', NULL, 1795382692924, 1795382692924, 1795382692938, 'uncaged');
INSERT INTO session_manager.runs VALUES ('01M82JBK6W1EPT64P1XBSZN6X0', '01M82JBK67JEHC9Y8PV26W8NVX', '@OPERATOR@', 'widened', '01M82JBK6W1EPT64P1X9BYTNE1', '01M82JBK6W1EPT64P1XCV4GVHE', 'completed', 'completed', 'stop', NULL, 0, 0, NULL, 1, '22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525', '{"prompt.md": "cf0214021af7ca53ff9ea52d1e6dd17b8963a4268fcabe4c7af3438962b1fcb7"}', NULL, 1795382693085, 1795382693085, 1795382693090, 'uncaged');
INSERT INTO session_manager.schema_version VALUES (9);
INSERT INTO session_manager.session_channel_seq VALUES ('01M82JBK0T2497YS6PJPR3XMFH', 'output', 3);
INSERT INTO session_manager.session_channel_seq VALUES ('01M82JBK0T2497YS6PJPR3XMFH', 'events', 4);
INSERT INTO session_manager.session_channel_seq VALUES ('01M82JBK67JEHC9Y8PV26W8NVX', 'output', 3);
INSERT INTO session_manager.session_channel_seq VALUES ('01M82JBK67JEHC9Y8PV26W8NVX', 'events', 4);
INSERT INTO session_manager.sessions VALUES ('01M82JBK0T2497YS6PJPR3XMFH', '@OPERATOR@', 'kept', NULL, 'idle', NULL, NULL, NULL, NULL, 'd3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f', '@DIR@/kept', '', NULL, 3, 'f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a', 4, '@OPERATOR@', 1795382692890, 1795382692938, NULL, false, NULL);
INSERT INTO session_manager.sessions VALUES ('01M82JBK67JEHC9Y8PV26W8NVX', '@OPERATOR@', 'widened', NULL, 'idle', NULL, NULL, NULL, NULL, '22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525', '@DIR@/widened', '', NULL, 3, 'f2a7c2646efccab8f487f4156f344b155d79ffb7b78d1bb1767a45884581f99a', 4, '@OPERATOR@', 1795382693063, 1795382693090, NULL, false, NULL);
INSERT INTO session_manager.snapshots VALUES ('d3e8f3c939b0773f03e5dd10059d822415399eb84e82b7d0fc01c9a6eca92f6f', '\x0a046b6570741801224b0a077072696d61727912077072696d6172791a10736d6172742d67656e6572616c697374220970726f6d70742e6d644a0966696c652e726561644a0b66696c652e637265617465580160012a0966696c652e6c6973742a0a66696c652e77726974652a09656469742e746578742a08656469742e6173742a0a656469742e70617463682a0b7365617263682e677265702a0b7365617263682e676c6f622a0a7365617263682e6173742a0a7368656c6c2e626173682a0a7368656c6c2e657865632a0d7368656c6c2e70726f63657373', 1795382692870);
INSERT INTO session_manager.snapshots VALUES ('22dad38eee2e8ef58907a26c65b1f8ee7e11e1b8dec4615df3681d830157b525', '\x0a07776964656e65641801224b0a077072696d61727912077072696d6172791a10736d6172742d67656e6572616c697374220970726f6d70742e6d644a0966696c652e726561644a0b66696c652e637265617465580160012a0966696c652e6c6973742a0a66696c652e77726974652a09656469742e746578742a08656469742e6173742a0a656469742e70617463682a0b7365617263682e677265702a0b7365617263682e676c6f622a0a7365617263682e6173742a0a7368656c6c2e626173682a0a7368656c6c2e657865632a0d7368656c6c2e70726f63657373', 1795382693053);
ALTER TABLE ONLY session_manager.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (id);
ALTER TABLE ONLY session_manager.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (ts, id);
ALTER TABLE ONLY session_manager.audit_202611
    ADD CONSTRAINT audit_202611_pkey PRIMARY KEY (ts, id);
ALTER TABLE ONLY session_manager.audit_202612
    ADD CONSTRAINT audit_202612_pkey PRIMARY KEY (ts, id);
ALTER TABLE ONLY session_manager.audit_202701
    ADD CONSTRAINT audit_202701_pkey PRIMARY KEY (ts, id);
ALTER TABLE ONLY session_manager.audit_default
    ADD CONSTRAINT audit_default_pkey PRIMARY KEY (ts, id);
ALTER TABLE ONLY session_manager.auth_epoch
    ADD CONSTRAINT auth_epoch_pkey PRIMARY KEY (singleton);
ALTER TABLE ONLY session_manager.frame_outbox
    ADD CONSTRAINT frame_outbox_pkey PRIMARY KEY (session_id, n);
ALTER TABLE ONLY session_manager.launch_tokens
    ADD CONSTRAINT launch_tokens_pkey PRIMARY KEY (token_hash);
ALTER TABLE ONLY session_manager.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);
ALTER TABLE ONLY session_manager.messages
    ADD CONSTRAINT messages_session_id_ordinal_key UNIQUE (session_id, ordinal);
ALTER TABLE ONLY session_manager.projects
    ADD CONSTRAINT projects_owner_user_id_path_key UNIQUE (owner_user_id, path);
ALTER TABLE ONLY session_manager.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (owner_user_id, id);
ALTER TABLE ONLY session_manager.prompts
    ADD CONSTRAINT prompts_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY session_manager.run_steps
    ADD CONSTRAINT run_steps_pkey PRIMARY KEY (run_id, step, part);
ALTER TABLE ONLY session_manager.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY session_manager.session_channel_seq
    ADD CONSTRAINT session_channel_seq_pkey PRIMARY KEY (session_id, channel);
ALTER TABLE ONLY session_manager.session_leases
    ADD CONSTRAINT session_leases_pkey PRIMARY KEY (session_id);
ALTER TABLE ONLY session_manager.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY session_manager.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (hash);
CREATE INDEX approvals_by_session ON session_manager.approvals USING btree (session_id, requested_at DESC, id DESC);
CREATE INDEX approvals_pending ON session_manager.approvals USING btree (run_id) WHERE (state = 'pending'::text);
CREATE INDEX audit_by_project ON ONLY session_manager.audit USING btree (project_id, ts, id) WHERE (project_id IS NOT NULL);
CREATE INDEX audit_202611_project_id_ts_id_idx ON session_manager.audit_202611 USING btree (project_id, ts, id) WHERE (project_id IS NOT NULL);
CREATE INDEX audit_by_session ON ONLY session_manager.audit USING btree (session_id, ts, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_202611_session_id_ts_id_idx ON session_manager.audit_202611 USING btree (session_id, ts, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_by_user ON ONLY session_manager.audit USING btree (user_id, ts, id);
CREATE INDEX audit_202611_user_id_ts_id_idx ON session_manager.audit_202611 USING btree (user_id, ts, id);
CREATE INDEX audit_202612_project_id_ts_id_idx ON session_manager.audit_202612 USING btree (project_id, ts, id) WHERE (project_id IS NOT NULL);
CREATE INDEX audit_202612_session_id_ts_id_idx ON session_manager.audit_202612 USING btree (session_id, ts, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_202612_user_id_ts_id_idx ON session_manager.audit_202612 USING btree (user_id, ts, id);
CREATE INDEX audit_202701_project_id_ts_id_idx ON session_manager.audit_202701 USING btree (project_id, ts, id) WHERE (project_id IS NOT NULL);
CREATE INDEX audit_202701_session_id_ts_id_idx ON session_manager.audit_202701 USING btree (session_id, ts, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_202701_user_id_ts_id_idx ON session_manager.audit_202701 USING btree (user_id, ts, id);
CREATE INDEX audit_default_project_id_ts_id_idx ON session_manager.audit_default USING btree (project_id, ts, id) WHERE (project_id IS NOT NULL);
CREATE INDEX audit_default_session_id_ts_id_idx ON session_manager.audit_default USING btree (session_id, ts, id) WHERE (session_id IS NOT NULL);
CREATE INDEX audit_default_user_id_ts_id_idx ON session_manager.audit_default USING btree (user_id, ts, id);
CREATE INDEX launch_tokens_expiry ON session_manager.launch_tokens USING btree (expires_at);
CREATE INDEX runs_at_work ON session_manager.runs USING btree (owner_user_id, project_id) WHERE (state = ANY (ARRAY['pending'::text, 'running'::text]));
CREATE INDEX runs_by_session ON session_manager.runs USING btree (session_id, created_at, id);
CREATE UNIQUE INDEX runs_one_at_work ON session_manager.runs USING btree (session_id) WHERE (state = ANY (ARRAY['pending'::text, 'running'::text]));
CREATE INDEX session_leases_by_holder ON session_manager.session_leases USING btree (holder);
CREATE UNIQUE INDEX session_leases_epoch ON session_manager.session_leases USING btree (session_id, epoch);
CREATE INDEX sessions_at_work ON session_manager.sessions USING btree (state) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text, 'paused'::text]));
CREATE INDEX sessions_by_project ON session_manager.sessions USING btree (owner_user_id, project_id, created_at DESC, id DESC);
CREATE INDEX sessions_to_resume ON session_manager.sessions USING btree (id) WHERE (resume_run IS NOT NULL);
CREATE INDEX sessions_tools_to_end ON session_manager.sessions USING btree (ended_at) WHERE tools_to_end;
ALTER INDEX session_manager.audit_pkey ATTACH PARTITION session_manager.audit_202611_pkey;
ALTER INDEX session_manager.audit_by_project ATTACH PARTITION session_manager.audit_202611_project_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_session ATTACH PARTITION session_manager.audit_202611_session_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_user ATTACH PARTITION session_manager.audit_202611_user_id_ts_id_idx;
ALTER INDEX session_manager.audit_pkey ATTACH PARTITION session_manager.audit_202612_pkey;
ALTER INDEX session_manager.audit_by_project ATTACH PARTITION session_manager.audit_202612_project_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_session ATTACH PARTITION session_manager.audit_202612_session_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_user ATTACH PARTITION session_manager.audit_202612_user_id_ts_id_idx;
ALTER INDEX session_manager.audit_pkey ATTACH PARTITION session_manager.audit_202701_pkey;
ALTER INDEX session_manager.audit_by_project ATTACH PARTITION session_manager.audit_202701_project_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_session ATTACH PARTITION session_manager.audit_202701_session_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_user ATTACH PARTITION session_manager.audit_202701_user_id_ts_id_idx;
ALTER INDEX session_manager.audit_pkey ATTACH PARTITION session_manager.audit_default_pkey;
ALTER INDEX session_manager.audit_by_project ATTACH PARTITION session_manager.audit_default_project_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_session ATTACH PARTITION session_manager.audit_default_session_id_ts_id_idx;
ALTER INDEX session_manager.audit_by_user ATTACH PARTITION session_manager.audit_default_user_id_ts_id_idx;
CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE ON session_manager.audit FOR EACH ROW EXECUTE FUNCTION session_manager.audit_refuse_change();
ALTER TABLE ONLY session_manager.approvals
    ADD CONSTRAINT approvals_run_id_fkey FOREIGN KEY (run_id) REFERENCES session_manager.runs(id);
ALTER TABLE ONLY session_manager.approvals
    ADD CONSTRAINT approvals_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_manager.sessions(id);
ALTER TABLE ONLY session_manager.messages
    ADD CONSTRAINT messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_manager.sessions(id);
ALTER TABLE ONLY session_manager.run_steps
    ADD CONSTRAINT run_steps_run_id_fkey FOREIGN KEY (run_id) REFERENCES session_manager.runs(id);
ALTER TABLE ONLY session_manager.runs
    ADD CONSTRAINT runs_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_manager.sessions(id);
GRANT USAGE ON SCHEMA session_manager TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.approvals TO kaged_app;
GRANT SELECT,INSERT ON TABLE session_manager.audit TO kaged_app;
GRANT SELECT,INSERT ON TABLE session_manager.audit_202611 TO kaged_app;
GRANT SELECT,INSERT ON TABLE session_manager.audit_202612 TO kaged_app;
GRANT SELECT,INSERT ON TABLE session_manager.audit_202701 TO kaged_app;
GRANT SELECT,INSERT ON TABLE session_manager.audit_default TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.auth_epoch TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.frame_outbox TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.launch_tokens TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.messages TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.projects TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.prompts TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.run_steps TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.runs TO kaged_app;
GRANT SELECT ON TABLE session_manager.schema_version TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.session_channel_seq TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.session_leases TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.sessions TO kaged_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE session_manager.snapshots TO kaged_app;
ALTER DEFAULT PRIVILEGES FOR ROLE kaged_owner IN SCHEMA session_manager GRANT SELECT,USAGE ON SEQUENCES  TO kaged_app;
ALTER DEFAULT PRIVILEGES FOR ROLE kaged_owner IN SCHEMA session_manager GRANT SELECT,INSERT,DELETE,UPDATE ON TABLES  TO kaged_app;
