// Generated from the contract by services/gateway/internal/openapi; do not edit.

/** ActivateWorkspaceResponse is the workspace. */
export interface ActivateWorkspaceResponse {
  /** The workspace after the change. On HTTP it is the whole body. */
  workspace: AdminWorkspace | null;
}

/** ActivePlugin is a plugin in use. */
export interface ActivePlugin {
  /** Its name. */
  name: string;
  /** Where it is active: local or project. */
  scope: string;
  /** Its version. */
  version: string;
}

/** ActiveRun is a pending or running run. */
export interface ActiveRun {
  /** Whether its root agent is in a cage: caged, uncaged or pending. */
  cage_status: string;
  /** Its creation time. */
  created_at: number;
  /** The run. */
  id: string;
  /** The running agents below the root, the oldest first. */
  live_subagents: LiveSubagent[];
  /** The project. */
  project_id: string;
  /** The beginning of the operator's message, at most 200 characters. */
  prompt: string;
  /** Its session. */
  session_id: string;
  /** Its start, null while it is pending. */
  started_at: number | null;
  /** Pending or running. */
  state: "unspecified" | "pending" | "running" | "completed" | "paused" | "failed" | "cancelled";
}

/** AddIssueTodosResponse holds the new todos. */
export interface AddIssueTodosResponse {
  /** The new todos. */
  items: IssueTodo[];
}

/** AddIssueUpdateResponse holds the update. */
export interface AddIssueUpdateResponse {
  /** The update. On HTTP it is the whole body. */
  update: IssueUpdate | null;
}

/** AdminOperator is an operator as administrators see it: counts and sums, but no content. */
export interface AdminOperator {
  /** Its own budget; absent without one. */
  budget: OperatorBudget | null;
  /** Their calls. */
  calls: number;
  /** The cost of its model calls in the last 30 days, in US dollars. */
  cost_usd: number;
  /** The time at which an administrator disabled it, null if it is enabled. */
  disabled_at: number | null;
  /** The time of the last change of a session, null without sessions. */
  last_active_at: number | null;
  /** Its own limits; absent without any. */
  limits: OperatorLimits | null;
  /** The operator, as the sign-in proxy names it. */
  operator_id: string;
  /** The number of its runs in progress. */
  running: number;
  /** The number of its sessions that have not ended. */
  sessions: number;
  /** Their tokens. */
  tokens: number;
  /** Its workspace, null without one. */
  workspace: string | null;
}

/** AdminWorkspace is a workspace of the deployment. */
export interface AdminWorkspace {
  /** The time of its assignment, null if it is free. */
  assigned_at: number | null;
  /** Its name. */
  name: string;
  /** Its operator, null if it is free. */
  operator_id: string | null;
  /** The number of its runs in progress. */
  running: number;
  /** active or draining. */
  state: string;
}

/** AgentCage is an agent's cage in plain words. */
export interface AgentCage {
  /** Whether the agent has a cage. */
  caged: boolean;
  /** Its grants and limits, a sentence each; for an uncaged agent a sentence that says what that means. */
  sentences: string[];
  /** The same as one line, as records have it. */
  summary: string;
}

/** AgentCapabilities describes the cage of an agent. */
export interface AgentCapabilities {
  /** The tree path. */
  agent_path: string;
  /** Whether it has a cage; an uncaged agent has the rights of the workspace's user. */
  caged: boolean;
  /** The grants of the cage as written, "none" without a cage. */
  summary: string;
}

/** AgentLimits bounds an agent. Null means that the agent has no such limit. */
export interface AgentLimits {
  /** Model calls, with all agents below. */
  budget_calls: number | null;
  /** Tokens, with all agents below. */
  budget_tokens: number | null;
  /** US dollars, with all agents below. */
  budget_usd: number | null;
  /** Time of work in milliseconds, without waiting for operators. */
  budget_walltime_ms: number | null;
  /** Levels of agents below. */
  depth: number | null;
  /** Agents that work at once, this one included. */
  live_agents: number | null;
  /** Tokens of one answer. */
  max_output_tokens: number | null;
  /** Model calls of a run. */
  max_steps: number | null;
}

/** AgentTool is a tool of the catalogue as an agent has it. */
export interface AgentTool {
  /** The actions of a tool that the agent has in part. */
  actions?: string[];
  /** default, operator, profile, agent or principal_scope. */
  decided_by: string;
  /** Whether the agent has it. */
  enabled: boolean;
  /** The canonical name. */
  name: string;
  /** The file and line of the deciding pattern. */
  place?: string;
  /** The alias that the model is shown. */
  shown_as?: string;
  /** The reason, in a few words; for a disabled tool the way to enable it. */
  why: string;
  /** Whether it changes files or runs programs. */
  writes: boolean;
}

/** AgentUse is an agent's use of models. */
export interface AgentUse {
  /** The agent's tree path. */
  agent_path: string;
  /** Requests to models. */
  calls: number;
  /** Input, cached or not, with output. */
  tokens: number;
  /** US dollars. */
  usd: number;
}

/** AnswerApprovalResponse holds the approval as it is now. */
export interface AnswerApprovalResponse {
  /** The approval after the answer. On HTTP it is the whole body. */
  approval: Approval | null;
}

/** Approval is a tool call that needs an operator's approval. */
export interface Approval {
  /** The operator's text for the agent, or null. */
  comment: string | null;
  /** The time after which it counts as denied. */
  expires_at: number;
  /** SHA-256 of the subject. An answer with another scope than once names it. */
  hash: string;
  /** The approval. */
  id: string;
  /** The invocation with the call, absent for the root agent. */
  invocation_id?: string;
  /** The standing approvals that an answer may create. */
  offers?: StandingOffer[];
  /** The time of the request. */
  requested_at: number;
  /** The time at which it was answered, expired or was closed; null while it is pending. */
  resolved_at: number | null;
  /** The operator who answered, or null. */
  resolved_by: string | null;
  /** Its run. */
  run_id: string;
  /** Its session. */
  session_id: string;
  /** The standing approval that the answer created, or that answered; null for none. */
  standing_approval_id: string | null;
  /** Its state. */
  state: "unspecified" | "pending" | "approved" | "denied" | "expired" | "closed";
  /** The tool call and its effects. */
  subject: ApprovalSubject | null;
  /** The tool call. */
  tool_call_id: string;
}

/** ApprovalOver is approval.resolved on the channel system: the call no longer waits. */
export interface ApprovalOver {
  /** The approval. */
  id: string;
  /** The project. */
  project_id: string;
  /** The session. */
  session_id: string;
  /** approved, denied, expired or closed. */
  state: string;
}

/** ApprovalRequested is events approval.requested: a tool call waits until an operator answers it. */
export interface ApprovalRequested {
  /** The approval; the answer goes to /api/v1/sessions/{session_id}/approvals/{approval_id}. */
  approval_id: string;
  /** The time after which it counts as denied. */
  expires_at: number;
  /** SHA-256 of the whole subject. */
  hash: string;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The message the run writes. */
  message_id: string;
  /** The time of the request. */
  requested_at: number;
  /** The run. */
  run_id: string;
  /** Its effects. */
  subject: ApprovalSubject | null;
  /** The tool call. */
  tool_call_id: string;
  /** Whether a part of subject was shortened; the approval itself has it whole. */
  truncated?: boolean;
}

/** ApprovalResolved is events approval.resolved: a tool call no longer waits. */
export interface ApprovalResolved {
  /** The approval. */
  approval_id: string;
  /** The operator's text for the agent. */
  comment?: string;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The time. */
  resolved_at: number;
  /** The operator who answered, or null. */
  resolved_by: string | null;
  /** The run. */
  run_id: string;
  /** The standing approval that the answer created, or that answered without an approval.requested. */
  standing_approval_id?: string;
  /** approved, denied, expired, or closed with its run. */
  state: string;
  /** The tool call. */
  tool_call_id: string;
}

/** ApprovalSubject describes a tool call that needs approval, with its effects at the time of the request. */
export interface ApprovalSubject {
  /** The tree path of the agent that calls. */
  agent_path: string;
  /** A fingerprint of the agent's cage, empty for none. */
  cage?: string;
  /** The exact command, for tools that run one; empty for others. */
  command: string;
  /** The folder the command runs in, or empty. */
  cwd: string;
  /** The "host:port" pairs that a command in the cage can reach; empty for none, or without a cage. */
  network?: string[];
  /** The files it changes, as results name them. */
  paths: string[];
  /** The change as a unified diff, shortened if long; empty if it cannot be computed before the call. */
  preview: string;
  /** The reasons why it needs approval, a sentence each, at least one. */
  reasons: string[];
  /** The kinds of standing approvals that it may become: command (the same command), words (plain commands with the same first words), files (changes of the same files); empty if only this call can be approved. */
  standing?: string[];
  /** The canonical name of the tool. */
  tool: string;
  /** The words of a command that is one plain call of a program, without a part for a shell to expand; empty for others. */
  words?: string[];
}

/** ApprovalWaiting is approval.requested on the channel system: a tool call of one of the operator's sessions waits for an answer. */
export interface ApprovalWaiting {
  /** The agent. */
  agent_path: string;
  /** The time after which it counts as denied. */
  expires_at: number;
  /** The approval. */
  id: string;
  /** The project. */
  project_id: string;
  /** The time of the request. */
  requested_at: number;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** The tool. */
  tool: string;
}

/** ApproveProjectResponse is the approval. */
export interface ApproveProjectResponse {
  /** When it was approved. */
  approved_at: number;
  /** operator, first_load or upgrade. */
  approved_by: string;
  /** The hash of the approved version. */
  hash: string;
}

/** AuditEntry is one entry. */
export interface AuditEntry {
  /** The tree path of the agent. */
  agent_path?: string;
  /** The dotted type. */
  event_type: string;
  /** Its id. */
  id: string;
  /** Details, by key. */
  payload: Record<string, unknown> | null;
  /** The project, or null. */
  project_id: string | null;
  /** The request that caused it. */
  request_id: string;
  /** Its run. */
  run_id?: string;
  /** The session, or null. */
  session_id: string | null;
  /** The time, in milliseconds. */
  ts: number;
  /** The operator. */
  user_id: string;
}

/** AuditWarning is events audit.warning: the daemon has reduced protection. The gateway's socket creates it; it is not numbered or replayed. */
export interface AuditWarning {
  /** The time since which it applies. */
  since: number;
  /** insecure-mode or no-sandbox. */
  warning: string;
}

/** BudgetLimit has the limits of a budget. A missing field means no limit. */
export interface BudgetLimit {
  /** Requests to models. */
  calls?: number;
  /** Input, cached or not, with output. */
  tokens?: number;
  /** allow: models without a known price count as free under a budget in US dollars. */
  unpriced?: string;
  /** US dollars. */
  usd?: number;
  /** Milliseconds of work, of a session's budget. Waiting for an operator does not count. */
  walltime_ms?: number;
}

/** BudgetState is events budget.state: the use of a budget. It is sent at most once a second for a budget, and at each refused call. */
export interface BudgetState {
  /** The tree path of the budget's agent; missing for other scopes. */
  agent_path?: string;
  /** The invocation in which it changed; missing for the root agent. */
  invocation_id?: string;
  /** Its limits. An agent's budget is that of one call of it; the root agent's bounds a run. */
  limit: BudgetLimit | null;
  /** The maximum usage of the calls in progress. */
  reserved: BudgetUse | null;
  /** The run. */
  run_id: string;
  /** agent, session or operator. */
  scope: string;
  /** The used amount. */
  spent: BudgetUse | null;
}

/** BudgetUse is a use of models. */
export interface BudgetUse {
  /** Requests to models. */
  calls: number;
  /** Input, cached or not, with output. */
  tokens: number;
  /** US dollars. Models without a known price count as free. */
  usd: number;
  /** Milliseconds of work, if the budget limits them. */
  walltime_ms?: number;
}

/** CageFinding is a file that was created while a cage lived and that may make tools outside the cage run code. */
export interface CageFinding {
  /** Its kind: gitlink, repository, hook_path, name, partial or policy. */
  kind: string;
  /** The path, absolute; empty for partial and policy. */
  path: string;
  /** A sentence about it. */
  text: string;
}

/** CageLayerReport describes one layer of a cage. */
export interface CageLayerReport {
  /** The enforcing mechanism. */
  by?: string;
  /** The command or setting that fixes it. */
  fix?: string;
  /** Its name. */
  name: string;
  /** The reason, if it is not enforced. */
  reason?: string;
  /** enforced, best_effort or missing. */
  state: string;
}

/** CageReport is a machine's support for cages. */
export interface CageReport {
  /** The layers of a cage. */
  layers: CageLayerReport[];
  /** How they are enforced: userns, setuid, or "" if unavailable. */
  tier: string;
  /** The reason, if they are unavailable. */
  unavailable?: string;
}

/** CancelInvocationResponse holds the invocation as it ended. */
export interface CancelInvocationResponse {
  /** The invocation after its end. On HTTP it is the whole body. */
  invocation: Invocation | null;
}

/** CancelRunResponse holds the run as it ended. */
export interface CancelRunResponse {
  /** The run after its end. On HTTP it is the whole body. */
  run: Run | null;
}

/** CompactSessionResponse is a compaction that begins, or a proposed one. */
export interface CompactSessionResponse {
  /** The tree path of the agent. */
  agent_path: string;
  /** The compaction; missing in a dry run. */
  compaction_id?: string;
  /** Whether it is only proposed. */
  dry_run: boolean;
  /** The proposal; only in a dry run. */
  proposed?: ProposedCompaction;
  /** The session. */
  session_id: string;
  /** The strategy. */
  strategy: string;
  /** operator_manual. */
  trigger: string;
}

/** CompactionCompleted is events compaction.completed: a part of the conversation was superseded. It is stored. */
export interface CompactionCompleted {
  /** The estimated tokens afterwards. */
  after_estimate: number;
  /** The tree path of the agent. */
  agent_path: string;
  /** The compaction. */
  compaction_id: string;
  /** Its duration in milliseconds. */
  duration_ms: number;
  /** The invocation; missing for the root agent. */
  invocation_id?: string;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** The message with the summary, or null. */
  summary_message_id: string | null;
  /** The number of superseded messages, results of tools included. */
  superseded_count: number;
}

/** CompactionFailed is events compaction.failed: a strategy failed, and another is used. */
export interface CompactionFailed {
  /** The tree path of the agent. */
  agent_path: string;
  /** The strategy that failed. */
  attempted_strategy: string;
  /** The compaction. */
  compaction_id: string;
  /** The strategy that replaces it. */
  fallback_strategy: string;
  /** The invocation; missing for the root agent. */
  invocation_id?: string;
  /** The cause, a sentence. */
  reason: string;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
}

/** CompactionFlagged is events compaction.flagged: the operator has rated a compaction. */
export interface CompactionFlagged {
  /** The compaction. */
  compaction_id: string;
  /** good, bad, neutral or null. */
  flag: string | null;
  /** The length of the notes in characters. */
  notes_length: number;
  /** The session. */
  session_id: string;
}

/** CompactionNoop is events compaction.noop: no part of the conversation can be superseded. */
export interface CompactionNoop {
  /** The tree path of the agent. */
  agent_path: string;
  /** The compaction. */
  compaction_id: string;
  /** The invocation; missing for the root agent. */
  invocation_id?: string;
  /** The cause, a sentence. */
  reason: string;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** The strategy. */
  strategy: string;
}

/** CompactionSpan is a superseded part of a stored message: its steps from from_step to to_step; 0 and 0 for all of it. */
export interface CompactionSpan {
  /** The first step, from 1. */
  from_step: number;
  /** The message. */
  message_id: string;
  /** The last step. */
  to_step: number;
}

/** CompactionTriggered is events compaction.triggered: an agent's conversation has become too long for its model's window. */
export interface CompactionTriggered {
  /** The tree path of the agent. */
  agent_path: string;
  /** The compaction. */
  compaction_id: string;
  /** The invocation; missing for the root agent. */
  invocation_id?: string;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** drop, summarize, delegate or checkpoint. */
  strategy: string;
  /** The estimated tokens of the next request, with the room for its answer. */
  threshold_estimate: number;
  /** threshold_crossed, provider_overflow_retry or operator_manual. */
  trigger: string;
}

/** CompactionUndone is events compaction.undone: the conversation has the superseded parts of a compaction again. */
export interface CompactionUndone {
  /** The tree path of the agent. */
  agent_path: string;
  /** The compaction. */
  compaction_id: string;
  /** The session. */
  session_id: string;
}

/** CompactorCost is the use of a summarizer. */
export interface CompactorCost {
  /** US dollars, null for an unknown price. */
  cost_usd: number | null;
  /** Input tokens, cached ones included. */
  input_tokens: number;
  /** The model. */
  model: string;
  /** Output tokens. */
  output_tokens: number;
  /** The provider. */
  provider: string;
}

/** ControlDebugResponse is the result. */
export interface ControlDebugResponse {
  /** The value of an expression. */
  result?: DebugVariable;
  /** The state of the program after an action; running if it did not stop in time. */
  state?: DebugState;
}

/** Cost has US dollars by kind of token. */
export interface Cost {
  /** For cache reads. */
  cache_read: number;
  /** For cache writes. */
  cache_write: number;
  /** For fresh input. */
  input: number;
  /** For output that is not reasoning. */
  output: number;
  /** For reasoning. */
  reasoning: number;
  /** The sum. */
  total: number;
}

/** CreateIssueResponse holds the issue. */
export interface CreateIssueResponse {
  /** Whether this request created the issue. */
  created: boolean;
  /** The issue. On HTTP it is the whole body. */
  issue: Issue | null;
}

/** CreateSessionResponse is the new session. */
export interface CreateSessionResponse {
  /** The time. */
  created_at: number;
  /** The session. */
  id: string;
  /** The issue that the session works on, or null. */
  issue_number: number | null;
  /** The same as name. */
  label: string | null;
  /** The display name, or null. */
  name: string | null;
  /** Its project. */
  project_id: string;
  /** Idle. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
}

/** CreateTokenResponse is the new token. */
export interface CreateTokenResponse {
  /** Its creation time. */
  created_at: number;
  /** Its expiry, null for never. */
  expires_at: number | null;
  /** The token. */
  id: string;
  /** Its name. */
  name: string;
  /** Its rights. */
  scope: "unspecified" | "read" | "run" | "admin";
  /** The text for "Authorization: Bearer". It is returned only here. */
  token: string;
}

/** Daemon describes the running kaged. */
export interface Daemon {
  /** loopback, sidecar or insecure. */
  auth_mode: string;
  /** user or system. */
  deployment_mode: string;
  /** enabled or disabled. */
  sandbox_mode: string;
  /** The version. */
  version: string;
  /** insecure-mode, no-sandbox. */
  warnings: string[];
}

/** DebugBreakpoint is a breakpoint of a program. */
export interface DebugBreakpoint {
  /** The line that the adapter chose, or 0. */
  actual_line?: number;
  /** The condition, or empty. */
  condition?: string;
  /** The function, or empty. */
  function?: string;
  /** The hit count, or 0. */
  hit_count?: number;
  /** Its id. */
  id: number;
  /** "line", "function", "instruction" or "data". */
  kind: string;
  /** The requested line. */
  line?: number;
  /** The text to log, or empty. */
  log_message?: string;
  /** The reason why not, or details. */
  message?: string;
  /** The file; empty for unknown. */
  path?: string;
  /** The instruction or the data, or empty. */
  reference?: string;
  /** Whether the program can stop at it. */
  verified: boolean;
}

/** DebugEnded is events debug.ended: a debug session has ended. It precedes run.ended of its run. A run that was interrupted may end without it. */
export interface DebugEnded {
  /** The agent's tree path. */
  agent_path: string;
  /** The time. */
  at: number;
  /** The debug session. */
  debug_session_id: string;
  /** The exit code of a program that has exited, absent for another one. */
  exit_code?: number;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** disconnect, crash or run_ended. */
  reason: string;
  /** The run. */
  run_id: string;
}

/** DebugFrame is a call of a function. */
export interface DebugFrame {
  /** The column, from 1; 0 for unknown. */
  column: number;
  /** Its number in its thread, from 0, the top. */
  id: number;
  /** The reference of its next instruction, absent for unknown. */
  instruction_reference?: string;
  /** The line, from 1. */
  line: number;
  /** The function. */
  name: string;
  /** The file; empty for unknown. */
  path: string;
}

/** DebugLine is a line of a source file. */
export interface DebugLine {
  /** Its number, from 1. */
  line: number;
  /** Its text, cut. */
  text: string;
}

/** DebugMove is an action on a program: a step, a continue or a pause. */
export interface DebugMove {
  /** pause, continue, step_into, step_over or step_out. */
  action: string;
  /** The time, in milliseconds. */
  at: number;
  /** The operator who took the action, absent for the agent. */
  operator_id?: string;
}

/** DebugOutput is a piece of a program's output. Offsets are in the whole output. */
export interface DebugOutput {
  /** The offset of its first byte in the whole output. */
  from: number;
  /** The offset of the byte after it. */
  next: number;
  /** The number of omitted bytes before it. */
  omitted?: number;
  /** The text. */
  text: string;
}

/** DebugSession is a program that an agent debugs. */
export interface DebugSession {
  /** The tree path of the agent. */
  agent_path: string;
  /** Whether it is caged. */
  caged: boolean;
  /** Its id. */
  debug_session_id: string;
  /** The agent's invocation within the run, absent for the root agent. */
  invocation_id?: string;
  /** The adapter's process id, or 0. */
  pid: number;
  /** The program, relative to the project's root if it is in the project; empty for a program that was attached to. */
  program: string;
  /** The run. */
  run_id: string;
  /** The runtime. */
  runtime: string;
  /** The session. */
  session_id: string;
  /** When it began, in milliseconds. */
  started_at: number;
  /** "starting", "running", "stopped", "exited" or "ended". */
  status: string;
}

/** DebugState is the state of a debugged program. */
export interface DebugState {
  /** The breakpoint at which it stopped, or 0. */
  breakpoint_id?: number;
  /** The debug session. */
  debug_session_id: string;
  /** The exit code of a program that has exited. */
  exit_code?: number;
  /** The position of the stop, unset if unknown. */
  location: DebugFrame | null;
  /** Its output. */
  output: DebugOutput | null;
  /** "running", "stopped" or "exited". */
  status: string;
  /** The reason of the stop, as the debug protocol names it: breakpoint, step, entry, pause, exception and others. */
  stopped_reason?: string;
  /** Details, such as the text of an exception. */
  text?: string;
  /** The thread that stopped. */
  thread_id?: number;
  /** The threads. */
  threads: DebugThread[];
}

/** DebugStopped is events debug.stopped: a debugged program has stopped. Short stops may be omitted. */
export interface DebugStopped {
  /** The agent's tree path. */
  agent_path: string;
  /** The time. */
  at: number;
  /** The breakpoint; may be absent. */
  breakpoint_id?: number;
  /** The debug session. */
  debug_session_id: string;
  /** The calls of the thread, the top one first, at most 20. */
  frames: DebugFrame[];
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The local variables of the top frame, at most 40, with values cut at 256 bytes. */
  locals: DebugVariable[];
  /** The position, null if unknown. */
  location: DebugFrame | null;
  /** The author of the last action, absent at the start. */
  moved?: DebugMove;
  /** The run. */
  run_id: string;
  /** The source lines around the top frame, if its file belongs to the project. */
  source: DebugLine[];
  /** The reason, as the debug protocol names it: breakpoint, step, entry, pause, exception and others. */
  stopped_reason: string;
  /** Details, such as the text of an exception. */
  text?: string;
  /** The thread. */
  thread_id: number;
}

/** DebugThread is a thread of a program. */
export interface DebugThread {
  /** Its id. */
  id: number;
  /** Its name. */
  name: string;
}

/** DebugVariable is a named value. */
export interface DebugVariable {
  /** Its memory reference; may be absent. */
  memory_reference?: string;
  /** The name. */
  name: string;
  /** The type. */
  type: string;
  /** The value, cut. */
  value: string;
  /** The reference of its parts; may be absent. */
  variables_reference?: number;
}

/** DebugView is a debug session in the form for people. */
export interface DebugView {
  /** The breakpoints. */
  breakpoints: DebugBreakpoint[];
  /** The frame of variables and source. */
  frame_id: number;
  /** The calls of the thread that stopped, the top one first. */
  frames: DebugFrame[];
  /** The author of the last action, null without an action. */
  moved: DebugMove | null;
  /** The debug session. */
  session: DebugSession | null;
  /** The source lines around the frame, if its file belongs to the project. */
  source: DebugLine[];
  /** The state of the program. */
  state: DebugState | null;
  /** Their number. */
  total_frames: number;
  /** Their number. */
  total_variables: number;
  /** Its local variables. */
  variables: DebugVariable[];
}

/** DisableOperatorResponse is the operator. */
export interface DisableOperatorResponse {
  /** The operator after the change. On HTTP it is the whole body. */
  operator: AdminOperator | null;
}

/** DiscardQueuedResponse confirms that the message was withdrawn. */
export interface DiscardQueuedResponse {
  /** The time. */
  discarded_at: number;
  /** The message. */
  message_id: string;
  /** The run, which is cancelled. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** idle. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
}

/** DrainWorkspaceResponse is the workspace. */
export interface DrainWorkspaceResponse {
  /** The workspace after the change. On HTTP it is the whole body. */
  workspace: AdminWorkspace | null;
}

/** DslDiagnostic is an error or a warning about a project file. */
export interface DslDiagnostic {
  /** The column, from 1; 0 for none. */
  col: number;
  /** Where the rule is documented, relative to kaged's source. */
  docLink: string;
  /** The file, relative to the project's root. */
  file: string;
  /** The kind, such as schema_violation. */
  kind: string;
  /** The line, from 1; 0 for none. */
  line: number;
  /** One sentence. */
  message: string;
  /** The tree path. */
  path: string;
}

/** EnableOperatorResponse is the operator. */
export interface EnableOperatorResponse {
  /** The operator after the change. On HTTP it is the whole body. */
  operator: AdminOperator | null;
}

/** EndSessionResponse holds the session as it ended. */
export interface EndSessionResponse {
  /** The session after its end. On HTTP it is the whole body. */
  session: Session | null;
}

/** Error is a failure in stored runs, frames and tool results. */
export interface Error {
  /** What went wrong. */
  code: "unspecified" | "bad_request" | "validation_failed" | "invalid_parameter" | "unauthenticated" | "forbidden" | "not_found" | "method_not_allowed" | "conflict" | "gone" | "payload_too_large" | "dsl_invalid" | "rate_limited" | "internal" | "provider_unreachable" | "unavailable" | "cancelled" | "deadline_exceeded" | "provider_not_configured" | "provider_auth_failed" | "provider_rate_limited" | "provider_bad_response" | "provider_rejected" | "context_overflow" | "model_alias_not_found" | "prompt_not_found" | "project_not_ready" | "cage_unavailable" | "interrupted" | "session_attached" | "stale_lease" | "audit_failed" | "script_mismatch" | "tool_not_found" | "invalid_params" | "capability_denied" | "seccomp_insufficient" | "principal_scope_violation" | "file_not_found" | "file_exists" | "file_not_read" | "file_changed_since_read" | "file_busy" | "file_not_text" | "file_too_large" | "file_not_regular" | "file_io" | "old_string_not_found" | "multiple_matches" | "no_change" | "invalid_pattern" | "shell_spawn_failed" | "timeout" | "local_config_invalid" | "process_not_found" | "process_ended" | "command_blocked" | "approval_required" | "approval_denied" | "approval_expired" | "patch_invalid" | "hunk_not_found" | "hunk_ambiguous" | "cage_policy_invalid" | "cage_limit_reached" | "budget_exceeded" | "policy_violation" | "loop_detected" | "redacted_text" | "issue_not_found" | "invalid_transition" | "no_bound_issue" | "todo_not_found" | "content_addressing_hint" | "lsp_server_not_found" | "lsp_server_unavailable" | "rename_not_possible" | "rename_scope_exceeds_cage" | "dap_requires_relaxed_seccomp" | "dap_session_ended" | "dap_adapter_not_found" | "dap_request_failed";
  /** Structured detail, by key. */
  details?: Record<string, unknown>;
  /** The HTTP status, if it differs from the code's; else 0. */
  http_status?: number;
  /** One sentence for a person. Not stable; do not match on it. */
  message: string;
}

/** ErrorBody is the body of every refusal. */
export interface ErrorBody {
  /** The error. */
  error: ErrorObject | null;
}

/** ErrorObject describes an error. */
export interface ErrorObject {
  /** The code. */
  code: "unspecified" | "bad_request" | "validation_failed" | "invalid_parameter" | "unauthenticated" | "forbidden" | "not_found" | "method_not_allowed" | "conflict" | "gone" | "payload_too_large" | "dsl_invalid" | "rate_limited" | "internal" | "provider_unreachable" | "unavailable" | "cancelled" | "deadline_exceeded" | "provider_not_configured" | "provider_auth_failed" | "provider_rate_limited" | "provider_bad_response" | "provider_rejected" | "context_overflow" | "model_alias_not_found" | "prompt_not_found" | "project_not_ready" | "cage_unavailable" | "interrupted" | "session_attached" | "stale_lease" | "audit_failed" | "script_mismatch" | "tool_not_found" | "invalid_params" | "capability_denied" | "seccomp_insufficient" | "principal_scope_violation" | "file_not_found" | "file_exists" | "file_not_read" | "file_changed_since_read" | "file_busy" | "file_not_text" | "file_too_large" | "file_not_regular" | "file_io" | "old_string_not_found" | "multiple_matches" | "no_change" | "invalid_pattern" | "shell_spawn_failed" | "timeout" | "local_config_invalid" | "process_not_found" | "process_ended" | "command_blocked" | "approval_required" | "approval_denied" | "approval_expired" | "patch_invalid" | "hunk_not_found" | "hunk_ambiguous" | "cage_policy_invalid" | "cage_limit_reached" | "budget_exceeded" | "policy_violation" | "loop_detected" | "redacted_text" | "issue_not_found" | "invalid_transition" | "no_bound_issue" | "todo_not_found" | "content_addressing_hint" | "lsp_server_not_found" | "lsp_server_unavailable" | "rename_not_possible" | "rename_scope_exceeds_cage" | "dap_requires_relaxed_seccomp" | "dap_session_ended" | "dap_adapter_not_found" | "dap_request_failed";
  /** Structured detail, by key. */
  details?: Record<string, unknown>;
  /** One sentence for a person. Not stable; do not match on it. */
  message: string;
  /** The request, as in X-Kaged-Request-Id and in the audit. */
  request_id: string;
}

/** FileChange is a changed file. */
export interface FileChange {
  /** The number of added lines, null if it cannot be counted. */
  added: number | null;
  /** The tree paths of the agents with tools that changed it. */
  agents: string[];
  /** A unified diff, null for a file that is not text or too large. */
  diff: string | null;
  /** created, modified or deleted. */
  kind: string;
  /** The reason for a missing diff: binary, too_large, image_lost if the earlier content has expired, or filtered if git stores the file through a filter driver (filter= in its attributes, such as LFS), which kaged never runs. */
  no_diff: string | null;
  /** tool: a file tool of the session changed it, and it is compared with its content before the session's first change. outside: a command of an agent or another program changed it; it is compared with HEAD. */
  origin: string;
  /** Its path, relative to the project's root. */
  path: string;
  /** The number of removed lines. */
  removed: number | null;
  /** Whether the diff was cut: at 1 MiB if path selects the file, and at 64 KiB in a list. */
  truncated?: boolean;
}

/** FilesystemCapabilities lists the visible files. */
export interface FilesystemCapabilities {
  /** "isolated" if only the mounts are visible, "disabled" without a cage. */
  mode: string;
  /** The granted paths in the order of the project file; project:/ is the project's root. */
  mounts: string[];
}

/** FiredPlugin is the part of a plugin in a compaction. */
export interface FiredPlugin {
  /** Its duration in milliseconds. */
  duration_ms: number;
  /** The plugin. */
  name: string;
  /** inject, retain, compactor_result, null or error. */
  result_kind: string;
  /** observer or compactor. */
  role: string;
}

/** FoundSession is a session in a list over all projects. */
export interface FoundSession {
  /** Its start. */
  created_at: number;
  /** The session. */
  id: string;
  /** The issue that the session works on, or null. */
  issue_number: number | null;
  /** The same as name. */
  label: string | null;
  /** The latest of its runs that have ended, null without one. */
  last_run: LastRun | null;
  /** The first message with the words of q; null if the name has them, or without q. */
  matched_message_id: string | null;
  /** In place of the project's max_output_tokens, or null. */
  max_output_tokens_override: number | null;
  /** In place of the project's max_steps, or null. */
  max_steps_override: number | null;
  /** The number of its messages. */
  message_count: number;
  /** "provider:model" in place of the project's alias, or null. */
  model_override: string | null;
  /** The display name, or null. */
  name: string | null;
  /** Its project. */
  project_id: string;
  /** Its state. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
  /** The time of its last change. */
  updated_at: number;
}

/** DebugOutput is output debug.output: output of a debugged program. Parts of much output are omitted. */
export interface FrameDebugOutput {
  /** The debug session. */
  debug_session_id: string;
  /** The offset of its first byte in the whole output. */
  from: number;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The offset of the byte after it. */
  next: number;
  /** The number of omitted bytes before it; may be absent. */
  omitted?: number;
  /** The run. */
  run_id: string;
  /** The text. */
  text: string;
}

/** DebugSession is events debug.session: a program that an agent debugs has started or continued. GET /api/v1/sessions/{session_id}/debug has all data. The frame may be repeated after a loss of tool-runner. */
export interface FrameDebugSession {
  /** The agent's tree path. */
  agent_path: string;
  /** The time. */
  at: number;
  /** The debug session. */
  debug_session_id: string;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The author of the action, absent at the start. */
  moved?: DebugMove;
  /** The program, relative to the project's root if it is in the project; empty for a program that was attached to. */
  program: string;
  /** The run. */
  run_id: string;
  /** The runtime. */
  runtime: string;
}

/** FrameStats is measurements as the API shows them. */
export interface FrameStats {
  /** US dollars by kind of token, null where the model's prices are not known. */
  cost: Cost | null;
  /** Milliseconds of model streaming, without tools. */
  duration: number;
  /** Output tokens per second of duration. */
  tps: number;
  /** Milliseconds to the first text or thinking; may be null. */
  ttft: number | null;
}

/** FrameUsage is token counts as the API shows them. */
export interface FrameUsage {
  /** Input tokens read from the provider's cache. */
  cache_read: number;
  /** Input tokens written to the provider's cache. */
  cache_write: number;
  /** Fresh input tokens. */
  input: number;
  /** Output tokens, reasoning included. */
  output: number;
  /** Those output tokens that are reasoning. */
  reasoning: number;
}

/** GetApprovalResponse holds the approval. */
export interface GetApprovalResponse {
  /** The approval. On HTTP it is the whole body. */
  approval: Approval | null;
}

/** GetCompactionResponse holds the compaction. */
export interface GetCompactionResponse {
  /** The compaction. On HTTP it is the whole body. */
  compaction: SessionCompaction | null;
}

/** GetContextEstimateResponse is the estimated use of the context window of an agent's model. */
export interface GetContextEstimateResponse {
  /** The tree path of the agent. */
  agent_path: string;
  /** fallback for a plain estimate, calibrated for an estimate that was corrected by the provider's counts. */
  algorithm: string;
  /** The window of the model in tokens, null for an unknown one. */
  context_window: number | null;
  /** The mean relative error of the estimates so far, null for an unknown one. */
  error_fraction: number | null;
  /** (input_tokens + reserved_output_tokens) / context_window; 0 for an unknown window. */
  fraction: number;
  /** The estimated tokens of the next request, without the operator's next message. */
  input_tokens: number;
  /** The tokens reserved for the answer. */
  reserved_output_tokens: number;
}

/** GetDebugResponse has the current debug sessions. */
export interface GetDebugResponse {
  /** The selected one, null without one. */
  debug: DebugView | null;
  /** All debug sessions of the current run, the oldest first; may be empty. */
  sessions: DebugSession[];
}

/** GetDoctorResponse is the findings, in the form of `kaged doctor --json`. */
export interface GetDoctorResponse {
  /** The workspace's support for cages. */
  cages: CageReport | null;
  /** The other checks. */
  checks: MachineCheck[];
  /** The language servers of the workspace. */
  language_servers: LanguageServerReport[];
  /** Whether every required part exists and cages can be created. */
  ok: boolean;
  /** The version of kaged. */
  version: string;
}

/** GetDslResponse is the current project file on disk. */
export interface GetDslResponse {
  /** Its text, "" if it is missing. */
  dsl: string;
  /** Whether it compiles, with the project's other files. */
  dsl_status: "unspecified" | "valid" | "invalid";
  /** The version of the format. */
  schema_version: number;
  /** The SHA-256 of the text in hex, for If-Match; null if it is missing. */
  sha256: string | null;
  /** When it was compiled for this answer. */
  validated_at: number;
}

/** GetInvocationResponse holds the invocation. */
export interface GetInvocationResponse {
  /** The invocation. On HTTP it is the whole body. */
  invocation: Invocation | null;
}

/** GetIssueResponse holds the issue. */
export interface GetIssueResponse {
  /** The issue. On HTTP it is the whole body. */
  issue: IssueDetail | null;
}

/** GetLedgerResponse is a page. */
export interface GetLedgerResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The entries, oldest first. */
  items: LedgerItem[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** GetLocalConfigResponse is the configuration. */
export interface GetLocalConfigResponse {
  /** The calling operator's configuration. On HTTP it is the whole body. */
  config: LocalConfig | null;
}

/** GetOperatorConfigResponse is the configuration. */
export interface GetOperatorConfigResponse {
  /** The administrators' configuration for the operator. On HTTP it is the whole body. */
  config: OperatorConfig | null;
}

/** GetProjectApprovalResponse compares the files with the approved version. */
export interface GetProjectApprovalResponse {
  /** The hash of the approved version, null before the first approval. */
  approved_hash: string | null;
  /** The files against the approved ones as a unified diff, at most 64 KiB; empty if no approval is needed. */
  diff: string;
  /** The hash to approve; null if no approval is needed. */
  pending_hash: string | null;
  /** Whether the files need approval. */
  state: "unspecified" | "approved" | "required";
  /** The grants of the files beyond the approved version. */
  widened: Widening[];
}

/** GetProjectCapabilitiesResponse is the rights of a project's root agent. */
export interface GetProjectCapabilitiesResponse {
  /** Every agent of the project with its cage, parents before children. The fields above are about the first. */
  agents: AgentCapabilities[];
  /** The files and folders. */
  filesystem: FilesystemCapabilities | null;
  /** The network. */
  network: NetworkCapabilities | null;
  /** The tools. */
  tools: ToolCapabilities | null;
}

/** GetProjectFileResponse is the current content of a file. */
export interface GetProjectFileResponse {
  /** Whether it is not text. */
  binary: boolean;
  /** When its content last changed. */
  modified_at: number;
  /** Its path, relative to the project's root. */
  path: string;
  /** Its SHA-256 in hex, null for a file larger than 1 MiB. */
  sha256: string | null;
  /** Its size in bytes. */
  size: number;
  /** Its text, null for a file that is not UTF-8 or larger than 1 MiB; /download has any file. */
  text: string | null;
}

/** GetProjectResponse holds the project. */
export interface GetProjectResponse {
  /** The project. On HTTP it is the whole body. */
  project: Project | null;
}

/** GetProjectStatusResponse has counts of a project's sessions and recent work. */
export interface GetProjectStatusResponse {
  /** The work of the last 24 hours. */
  activity: ProjectActivity | null;
  /** The last 10 runs, newest first. */
  recent_runs: RecentRun[];
  /** The sessions by state. */
  sessions: SessionCounts | null;
}

/** GetPromptResponse is a prompt. With "Accept: text/plain" the body on HTTP is the text alone. */
export interface GetPromptResponse {
  /** The text against version diff_from as a unified diff, at most 64 KiB. */
  diff?: string;
  /** The file. */
  path: string;
  /** The SHA-256 of the text in hex, for If-Match. */
  sha256: string;
  /** The text. */
  text: string;
  /** The version of the text. */
  version: number;
  /** Its versions, the newest first, at most 100. */
  versions: PromptVersion[];
}

/** GetRunResponse holds the run. */
export interface GetRunResponse {
  /** The run. On HTTP it is the whole body. */
  run: Run | null;
}

/** GetSessionResponse holds the session. */
export interface GetSessionResponse {
  /** The session. On HTTP it is the whole body. */
  session: Session | null;
}

/** GetSpendResponse is the use of an operator's model calls. */
export interface GetSpendResponse {
  /** The calls by project and model, the most expensive first, at most 200. */
  groups: SpendGroup[];
  /** Whether there are more groups. */
  has_more: boolean;
  /** The start of the time range. */
  since: number;
  /** All calls. */
  total: SpendSum | null;
  /** The end of the time range: the time of the answer. */
  until: number;
}

/** GetSynthesizedDslResponse is a project as one document. If the project does not compile, the HTTP status is 422. */
export interface GetSynthesizedDslResponse {
  /** The errors about names that contradict each other. */
  cross_ref_errors: string[];
  /** The errors. */
  diagnostics?: DslDiagnostic[];
  /** The error, as in the body of any refusal; unset if there is a document. */
  error?: ErrorObject;
  /** Whether the project has an overlay. */
  has_overlay: boolean;
  /** Whether an agent refers to another project. */
  has_project_references: boolean;
  /** The tools of the root agent, in canonical order; null if the project does not compile. */
  resolved_tools: unknown;
  /** The warnings, each with its tree path. */
  warnings: string[];
  /** The document: overlay merged, references replaced, defaults written out; null if the project does not compile. */
  yaml: string | null;
}

/** GetToolResultResponse holds the result. */
export interface GetToolResultResponse {
  /** The result, a part of type tool_result. On HTTP it is the whole body. */
  result: MessagePart | null;
}

/** GetUnresolvedResponse lists the missing parts of a pending project; it is empty for a ready project. */
export interface GetUnresolvedResponse {
  /** The lists. On HTTP it is the whole body. */
  unresolved: Unresolved | null;
}

/** InitSubagentResponse is the folder with its project file. */
export interface InitSubagentResponse {
  /** Whether the project file is new. */
  created: boolean;
  /** The folder, absolute. */
  path: string;
  /** The slug in a new project file, derived from the folder's name. */
  project: string;
}

/** Invocation is one call of an agent by another in full. */
export interface Invocation {
  /** The agent's tree path. */
  agent_path: string;
  /** Its cage's policy, null without one. */
  cage_policy: InvocationCage | null;
  /** Whether the agent is in a cage: caged, uncaged, or pending until its cage is created. */
  cage_status: string;
  /** US dollars, null if no price is known. */
  cost_usd: number | null;
  /** Its end, null before. */
  ended_at: number | null;
  /** The error of a failure, or null. */
  error: Error | null;
  /** 0 completed, 1 failed, 130 cancelled; null while it has not ended. */
  exit: number | null;
  /** The files that it and agents below it changed, at most 200. */
  files_changed: string[];
  /** The invocation. */
  invocation_id: string;
  /** The agent's key. */
  name: string;
  /** Its last text. */
  output: string;
  /** The invocation that called it, null for the root agent. */
  parent_invocation_id: string | null;
  /** Its caller's prompt. */
  prompt: string;
  /** The run. */
  run_id: string;
  /** Its steps. */
  run_steps: RunStep[];
  /** Its start. */
  started_at: number;
  /** pending, running, completed, failed or cancelled. */
  state: string;
  /** The number of its answered model calls. Agents below it are not included, here and in the fields that follow. */
  steps: number;
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
  /** The caller's call. */
  tool_call_id: string;
  /** The names of its tools, those of its children last. */
  tools: string[];
}

/** InvocationCage is the policy of an agent's cage. */
export interface InvocationCage {
  /** Named capabilities. */
  capabilities: string[];
  /** The names of the variables set inside. */
  env: string[];
  /** The granted paths. */
  fs: InvocationMount[];
  /** writable or read_only. */
  git: string;
  /** The reachable "host:port" pairs; an empty list means no network. */
  net_allow: string[];
  /** Paths that cannot be written although a grant may hold them. */
  read_only: string[];
  /** default or relaxed. */
  seccomp: string;
  /** ephemeral or persistent. */
  state: string;
}

/** InvocationMount grants one path to a cage. */
export interface InvocationMount {
  /** ro or rw. */
  mode: string;
  /** The path, as written in the project file. */
  path: string;
}

/** Issue is an issue. */
export interface Issue {
  /** The assignee: "primary", "workflow:NAME" or "session:ID", or null. */
  assignment: string | null;
  /** The body, Markdown. */
  body: string;
  /** Its creation time. */
  created_at: number;
  /** The author: an operator's name, or "agent:PATH". */
  created_by: string;
  /** The id, a ULID. */
  id: string;
  /** The project and number that it was exported from. */
  imported_from?: string;
  /** The statuses that it can change to. */
  legal_transitions: Array<"unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened">;
  /** The number, counted from 1 in the project without gaps. */
  number: number;
  /** The body before its first edit, null if it was never edited. */
  original_body: string | null;
  /** The project's slug. */
  project_id: string;
  /** The time at which it was resolved, null before. */
  resolved_at: number | null;
  /** The resolver, null before. */
  resolved_by: string | null;
  /** Its status. */
  status: "unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened";
  /** The title. */
  title: string;
  /** The time of its last change. */
  updated_at: number;
  /** The fields that the request changed; only in answers to PATCH. */
  updated_fields?: string[];
  /** The version, which grows with every change; If-Match takes it. */
  version: number;
}

/** IssueCreated is events issue.created: an issue of the session's project was filed, by an operator or an agent. A frame may be repeated after an outage; the issue itself has the current state. */
export interface IssueCreated {
  /** The issue's number. */
  number: number;
  /** The project's slug. */
  project_id: string;
}

/** IssueDetail is an issue with its history. */
export interface IssueDetail {
  /** The assignee: "primary", "workflow:NAME" or "session:ID", or null. */
  assignment: string | null;
  /** The body, Markdown. */
  body: string;
  /** Its creation time. */
  created_at: number;
  /** The author: an operator's name, or "agent:PATH". */
  created_by: string;
  /** The id, a ULID. */
  id: string;
  /** The project and number that it was exported from. */
  imported_from?: string;
  /** The statuses that it can change to. */
  legal_transitions: Array<"unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened">;
  /** The number, counted from 1 in the project without gaps. */
  number: number;
  /** The body before its first edit, null if it was never edited. */
  original_body: string | null;
  /** The project's slug. */
  project_id: string;
  /** The time at which it was resolved, null before. */
  resolved_at: number | null;
  /** The resolver, null before. */
  resolved_by: string | null;
  /** Its status. */
  status: "unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened";
  /** The title. */
  title: string;
  /** The time of its last change. */
  updated_at: number;
  /** The last 200 updates, the oldest first. */
  updates: IssueUpdate[];
  /** The version, which grows with every change; If-Match takes it. */
  version: number;
}

/** IssueSummary is an issue in a list. */
export interface IssueSummary {
  /** The assignee: "primary", "workflow:NAME" or "session:ID", or null. */
  assignment: string | null;
  /** Its creation time. */
  created_at: number;
  /** The author: an operator's name, or "agent:PATH". */
  created_by: string;
  /** The id, a ULID. */
  id: string;
  /** The number, counted from 1 in the project without gaps. */
  number: number;
  /** The project's slug. */
  project_id: string;
  /** The time at which it was resolved, null before. */
  resolved_at: number | null;
  /** The resolver, null before. */
  resolved_by: string | null;
  /** Its status. */
  status: "unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened";
  /** The title. */
  title: string;
  /** The time of its last change. */
  updated_at: number;
  /** The version, which grows with every change. */
  version: number;
}

/** IssueTodo is a step or a criterion of an issue. */
export interface IssueTodo {
  /** The time of its completion, null before. */
  completed_at: number | null;
  /** The task. */
  content: string;
  /** Its creation time. */
  created_at: number;
  /** The id, a ULID. */
  id: string;
  /** Its purpose. */
  kind: "unspecified" | "step" | "criterion";
  /** Its notes. */
  notes: TodoNote[];
  /** The agent that proposed it; null if the agent that created it did. */
  origin_agent: string | null;
  /** The phase that it belongs to, or null. */
  phase: string | null;
  /** Its position in the list, from 0. */
  position: number;
  /** Its status. */
  status: "unspecified" | "pending" | "in_progress" | "completed" | "abandoned";
  /** The time of its verification by the operator, null before. */
  verified_at: number | null;
  /** The verifier, null before. */
  verified_by: string | null;
}

/** IssueUpdate is an entry of an issue's history. Entries never change. */
export interface IssueUpdate {
  /** Its author: an operator's name, or "agent:PATH". */
  author: string;
  /** The text of a comment, Markdown. */
  body: string;
  /** The time. */
  created_at: number;
  /** The id, a ULID. */
  id: string;
  /** The issue. */
  issue_number: number;
  /** Its kind. */
  kind: "unspecified" | "comment" | "status_change" | "title_edit" | "body_edit" | "assignment_change";
  /** The change, by kind; an object. */
  metadata: Record<string, unknown> | null;
  /** Its audience. */
  visibility: "unspecified" | "all" | "operator_only";
}

/** IssueUpdated is events issue.updated: an issue of the session's project, one of its todos, or its history has changed. */
export interface IssueUpdated {
  /** The issue's number. */
  number: number;
  /** The project's slug. */
  project_id: string;
}

/** LanguageServerReport is the state of a language's server on a machine. */
export interface LanguageServerReport {
  /** The reason why it is not visible in a cage. */
  cage_reason?: string;
  /** The command with an installed program, or the first of the language. */
  command: string;
  /** Whether it is visible in a cage. */
  in_cage: boolean;
  /** The command that installs it. */
  install: string;
  /** The language. */
  lang: string;
  /** The program's path. */
  program?: string;
}

/** LastRun is the end of a session's latest run. */
export interface LastRun {
  /** The time of its end. */
  ended_at: number;
  /** The error of a failure, or null. */
  error: Error | null;
  /** The run. */
  id: string;
  /** Its state. */
  state: "unspecified" | "pending" | "running" | "completed" | "paused" | "failed" | "cancelled";
}

/** Launched is the body of POST /api/v1/auth/rotate, and of GET /api/v1/launch for a client that accepts JSON. */
export interface Launched {
  /** The token to send in X-Kaged-CSRF. */
  csrf_token: string;
  /** True. */
  ok: boolean;
}

/** LedgerItem is an action, a refusal or a note of an agent. Secrets in its texts are masked. */
export interface LedgerItem {
  /** The tree path of the agent. */
  agent_path: string;
  /** The time. */
  at: number;
  /** The command line. */
  command?: string;
  /** Of a todo: whether it is done. */
  done?: boolean;
  /** The command's exit code; missing for an unknown one. */
  exit_code?: number;
  /** file_read, file_changed, command, denied, decision, todo or failed. */
  kind: string;
  /** The file. */
  path?: string;
  /** The run. */
  run_id: string;
  /** Its number in the session, from 1. */
  seq: number;
  /** The SHA-256 of the file's content. */
  sha256?: string;
  /** The step of the run. */
  step: number;
  /** A note, or the cause of a refusal or a failure. */
  text?: string;
}

/** ListAdminAuditResponse is a page. */
export interface ListAdminAuditResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The entries without their details, newest first. */
  items: AuditEntry[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListAliasesResponse holds the model aliases of the operator's configuration. */
export interface ListAliasesResponse {
  /** By name. */
  items: ModelAlias[];
}

/** ListAllApprovalsResponse is a page. */
export interface ListAllApprovalsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The approvals, newest first. */
  items: Approval[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListApprovalsResponse is a page. */
export interface ListApprovalsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The approvals, newest first. */
  items: Approval[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListCompactionsResponse is a page. */
export interface ListCompactionsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The compactions, newest first. */
  items: SessionCompaction[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListInvocationsResponse is a page. */
export interface ListInvocationsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The invocations, oldest first. */
  items: SubagentInvocation[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListIssueTodosResponse holds the todos. */
export interface ListIssueTodosResponse {
  /** The todos in their order. */
  items: IssueTodo[];
}

/** ListIssueUpdatesResponse is a page. */
export interface ListIssueUpdatesResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The updates. */
  items: IssueUpdate[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListIssuesResponse is a page. */
export interface ListIssuesResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The issues. */
  items: IssueSummary[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
  /** The number of matches, at most 1000, which means 1000 or more; only if with_total is set. */
  total?: number;
}

/** ListLanguageServersResponse lists language servers. */
export interface ListLanguageServersResponse {
  /** The servers. */
  servers: RunningLanguageServer[];
}

/** ListMessagesResponse is a page. */
export interface ListMessagesResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The messages in the asked order. */
  items: SessionMessage[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
  /** The number of the operator's messages before those of this page; missing unless newest_first is set. */
  turns_before?: number;
}

/** ListOperatorsResponse is a page. */
export interface ListOperatorsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The operators, by their ids. */
  items: AdminOperator[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListProcessesResponse lists the running commands. */
export interface ListProcessesResponse {
  /** The cages. */
  cages: RunningCage[];
  /** The commands. */
  processes: RunningProcess[];
  /** The pending and running runs. */
  runs: ActiveRun[];
}

/** ListProjectAgentsResponse holds the agents. */
export interface ListProjectAgentsResponse {
  /** Parents stand before children. */
  items: ProjectAgent[];
}

/** ListProjectFilesResponse is a page of a folder in the order of names. */
export interface ListProjectFilesResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The entries. */
  items: ProjectEntry[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListProjectLogsResponse is a page. */
export interface ListProjectLogsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The entries, newest first. */
  items: LogEntry[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListProjectsResponse is a page. */
export interface ListProjectsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The projects. */
  items: ProjectSummary[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListPromptsResponse lists the prompt files of the project's agents, by path. */
export interface ListPromptsResponse {
  /** The prompts. */
  items: PromptSummary[];
}

/** ListProvidersResponse holds the providers of the operator's configuration. */
export interface ListProvidersResponse {
  /** By name. */
  items: Provider[];
}

/** ListRunsResponse is a page. */
export interface ListRunsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The runs, oldest first. */
  items: RunSummary[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListSessionChangesResponse holds the changed files, in the order of their paths. */
export interface ListSessionChangesResponse {
  /** The commit with which files without a stored copy are compared, null outside a git repository. */
  head: string | null;
  /** The files; at most 1000. */
  items: FileChange[];
  /** Whether the list is incomplete because of a limit, or because the repository cannot be read whole. */
  truncated: boolean;
}

/** ListSessionPromptsResponse lists the system prompts of a session's running agents, the root agent's first. */
export interface ListSessionPromptsResponse {
  /** The prompts. */
  items: SessionPrompt[];
}

/** ListSessionsResponse is a page. */
export interface ListSessionsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The sessions. */
  items: SessionSummary[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListStandingApprovalsResponse is a page. */
export interface ListStandingApprovalsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The standing approvals, newest first. */
  items: StandingApproval[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** ListTokensResponse is all of them. */
export interface ListTokensResponse {
  /** The tokens, oldest first: at most 100. */
  items: Token[];
}

/** ListWorkspacesResponse are the workspaces. */
export interface ListWorkspacesResponse {
  /** The workspaces, by their names. */
  items: AdminWorkspace[];
}

/** LiveSubagent is a running agent below the root. */
export interface LiveSubagent {
  /** The agent's tree path. */
  agent_path: string;
  /** caged, uncaged or pending. */
  cage_status: string;
  /** The invocation. */
  invocation_id: string;
  /** The agent's key. */
  name: string;
  /** The invocation that called it, null for the root agent. */
  parent_invocation_id: string | null;
  /** Its start. */
  started_at: number;
  /** Its state. */
  state: string;
}

/** LoadProjectResponse holds the registered project. */
export interface LoadProjectResponse {
  /** Whether it was not registered before. */
  created: boolean;
  /** The project. On HTTP it is the whole body. */
  project: RegisteredProject | null;
}

/** LocalConfig is the configuration of one operator in a deployment that operators share. */
export interface LocalConfig {
  /** The administrators' configuration for the operator, which wins; empty without one. */
  administrator_document: string;
  /** The operator's own: TOML with models, operator_name and ui; empty without one. */
  document: string;
  /** A number that grows with each change, 0 before the first. */
  revision: number;
  /** The time of the last change, null before the first. */
  updated_at: number | null;
}

/** LogEntry is one line of a project's log (spec: OperationalLogEntry). */
export interface LogEntry {
  /** Details by key, with secrets masked. */
  context?: Record<string, unknown>;
  /** Its id, the same in pages and in the stream. */
  id: string;
  /** debug, info, warn or error. */
  level: string;
  /** One sentence. */
  message: string;
  /** The plugin that it concerns. */
  pluginName?: string;
  /** The project. */
  projectId: string;
  /** The session that it concerns. */
  sessionId?: string;
  /** daemon, plugin, session or subagent. */
  source: string;
  /** The time, in milliseconds. */
  ts: number;
}

/** MachineCheck is one check of a machine. */
export interface MachineCheck {
  /** The finding. */
  detail: string;
  /** The remedy. */
  fix?: string;
  /** Its name. */
  name: string;
  /** ok, warning, optional or missing. */
  state: string;
}

/** Me is the body of GET /api/v1/me. */
export interface Me {
  /** The token to send in X-Kaged-CSRF. */
  csrf_token: string;
  /** The daemon. */
  daemon: Daemon | null;
  /** The email address, for display only. */
  email: string;
  /** The operator's groups, as the sign-in proxy names them. */
  groups: string[];
  /** The display name. */
  operator_name: string;
  /** The operator's preferences for the console. */
  preferences: Preferences | null;
  /** The operator. */
  user_id: string;
}

/** MessageDelta is output message.delta. */
export interface MessageDelta {
  /** The text. */
  delta: string;
  /** text or thinking. */
  kind: string;
  /** The message. */
  message_id: string;
}

/** MessageEnd is output message.end. */
export interface MessageEnd {
  /** The time. */
  ended_at: number;
  /** The error. */
  error_message?: string;
  /** The message. */
  message_id: string;
  /** Its measurements. */
  stats?: FrameStats;
  /** The model's reason to stop. */
  stop_reason: string;
  /** Its use of tokens. */
  usage?: FrameUsage;
}

/** MessageMetadata describes the origin of a model's message. */
export interface MessageMetadata {
  /** Its code. */
  error_code?: string;
  /** The error. */
  error_message?: string;
  /** The provider's HTTP status. */
  error_status?: number;
  /** compaction_summary for the summary of a compaction, missing for an answer. */
  kind?: string;
  /** The model. */
  model: string;
  /** The provider. */
  provider: string;
  /** Its measurements. */
  stats?: FrameStats;
  /** The model's reason to stop. */
  stop_reason: string;
  /** Its use of tokens. */
  usage?: FrameUsage;
}

/** MessagePart is a part of a message. */
export interface MessagePart {
  /** Milliseconds of the call, rounded up; only of a tool_result, missing if it is unknown. */
  duration_ms?: number;
  /** The id of a tool call. */
  id?: string;
  /** The tool's parameters as JSON; a string if they are not JSON or nest deeper than 100 levels. */
  input?: unknown;
  /** Whether the tool failed. */
  is_error?: boolean;
  /** The tool. */
  name?: string;
  /** The tool's result. */
  output?: string;
  /** The text of a text or thinking. */
  text?: string;
  /** The tool call that a result answers. */
  tool_call_id?: string;
  /** text, thinking, tool_call or tool_result. */
  type: string;
}

/** MessageRetract is output message.retract: the answer of a model broke off and is requested again. Every delta since the last tool result of the message, or since its start, is void. */
export interface MessageRetract {
  /** The message. */
  message_id: string;
  /** The reason, a sentence. */
  reason: string;
  /** The step of the run. */
  step: number;
}

/** MessageStart is output message.start. */
export interface MessageStart {
  /** The message. */
  message_id: string;
  /** The model. */
  model: string;
  /** The provider. */
  provider: string;
  /** Whether a script plays the model. */
  rehearsal?: boolean;
  /** Its author. */
  role: string;
  /** The run. */
  run_id: string;
  /** The time. */
  started_at: number;
}

/** MessageSteer is output message.steer: the state of an operator's message for a run in progress. */
export interface MessageSteer {
  /** The step of the run after which it was delivered, or 0. */
  after_step?: number;
  /** The time. */
  at: number;
  /** The text. */
  content: string;
  /** The message. */
  message_id: string;
  /** The run that it steers, or that answers it; null for none. */
  run_id: string | null;
  /** queued: it waits for the next step boundary. delivered: it follows the results of after_step. next: the run completed before, and run_id is the next run. kept: the run ended otherwise, and the model reads the message with the operator's next one. */
  state: string;
  /** Whether content was shortened; the stored message has it whole. */
  truncated?: boolean;
}

/** MessageToolCall is output message.tool_call. */
export interface MessageToolCall {
  /** The tool call. */
  id: string;
  /** Its parameters as JSON; a string if they are not JSON or nest deeper than 100 levels. */
  input: unknown;
  /** The message. */
  message_id: string;
  /** The tool. */
  name: string;
  /** Whether input was shortened; the stored message has it whole. */
  truncated?: boolean;
}

/** MessageToolOutput is output message.tool_output: output of a running tool. */
export interface MessageToolOutput {
  /** The message. */
  message_id: string;
  /** stdout or stderr. */
  stream: string;
  /** The text. */
  text: string;
  /** The tool call. */
  tool_call_id: string;
}

/** MessageToolResult is output message.tool_result. */
export interface MessageToolResult {
  /** Its duration in milliseconds. */
  duration_ms: number;
  /** Its parameters as JSON; a string if they are not JSON or nest deeper than 100 levels. */
  input: unknown;
  /** Whether it failed. */
  is_error: boolean;
  /** The message. */
  message_id: string;
  /** The tool. */
  name: string;
  /** Its result. */
  output: string;
  /** The tool call. */
  tool_call_id: string;
  /** Whether output or input was shortened; GET /api/v1/sessions/{session_id}/runs/{run_id}/tool-results/{tool_call_id} has it whole. */
  truncated?: boolean;
}

/** ModelAlias is a model alias. */
export interface ModelAlias {
  /** The alias. */
  name: string;
  /** The targets of its calls, in order; a later one is used if an earlier one fails. */
  targets: ModelTarget[];
  /** Whether a target can be used. */
  usable: boolean;
}

/** ModelTarget is a model of a provider. */
export interface ModelTarget {
  /** The model. */
  model: string;
  /** The operator's name for the model, or null. */
  name: string | null;
  /** The provider. */
  provider: string;
  /** The reason why not, null if usable. */
  reason: string | null;
  /** Whether calls can be sent to it. */
  usable: boolean;
}

/** NetworkAttempted is events net.attempt: a command in a cage tried to reach the network. The audit log has the attempts too. */
export interface NetworkAttempted {
  /** The agent's tree path. */
  agent_path: string;
  /** Whether it was allowed. */
  allowed: boolean;
  /** The time. */
  at: number;
  /** The number of such attempts. */
  count: number;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The rule that allowed it, or a sentence with the reason of the refusal. */
  rule: string;
  /** The run. */
  run_id: string;
  /** Its target: "host:port", "host" for a lookup, an address, or "UDP" or "UDP over IPv6" if the target is unknown. */
  target: string;
}

/** NetworkCapabilities lists the reachable hosts. */
export interface NetworkCapabilities {
  /** The "host:port" pairs in the order of the project file. */
  allowlist: string[];
  /** "isolated" if only the hosts of the list are reachable, "disabled" without a cage. */
  mode: string;
}

/** OperatorBudget replaces the budget of the deployment's configuration for one operator. */
export interface OperatorBudget {
  /** Model calls in a period, 0 for no bound. */
  calls: number;
  /** The period: day, week or month; day unless set. */
  per: string;
  /** Tokens in a period, 0 for no bound. */
  tokens: number;
  /** US dollars in a period, 0 for no bound. */
  usd: number;
}

/** OperatorBudget replaces the budget of the deployment's configuration for one operator. */
export interface OperatorBudgetInput {
  /** Model calls in a period, 0 for no bound. */
  calls?: number | null;
  /** The period: day, week or month; day unless set. */
  per?: string | null;
  /** Tokens in a period, 0 for no bound. */
  tokens?: number | null;
  /** US dollars in a period, 0 for no bound. */
  usd?: number | null;
}

/** OperatorConfig is the administrators' configuration for one operator. */
export interface OperatorConfig {
  /** TOML with models, default_tools, operator_name and ui; empty without one. */
  document: string;
  /** The operator. */
  operator_id: string;
  /** A number that grows with each change, 0 before the first. */
  revision: number;
  /** The time of the last change, null before the first. */
  updated_at: number | null;
}

/** OperatorLimits replaces limits of the deployment's configuration for one operator. An unset limit stays as configured. */
export interface OperatorLimits {
  /** The maximum number of pages of the audit record that it may read per minute. */
  audit_reads_per_minute: number | null;
  /** The maximum number of project files that it may write over the API per minute. */
  dsl_writes_per_minute: number | null;
  /** The maximum number of agents of one session that work at once. */
  live_agents: number | null;
  /** The maximum number of model calls of a run, in a project without its own limit. */
  max_steps: number | null;
  /** The maximum number of messages per minute. */
  messages_per_minute: number | null;
  /** The maximum number of requests per minute. */
  requests_per_minute: number | null;
  /** The maximum number of running sessions. */
  sessions_per_operator: number | null;
  /** The maximum number of running sessions of one project. */
  sessions_per_project: number | null;
  /** The maximum number of project files that it may validate per minute. */
  validations_per_minute: number | null;
}

/** OperatorLimits replaces limits of the deployment's configuration for one operator. An unset limit stays as configured. */
export interface OperatorLimitsInput {
  /** The maximum number of pages of the audit record that it may read per minute. */
  audit_reads_per_minute?: number | null;
  /** The maximum number of project files that it may write over the API per minute. */
  dsl_writes_per_minute?: number | null;
  /** The maximum number of agents of one session that work at once. */
  live_agents?: number | null;
  /** The maximum number of model calls of a run, in a project without its own limit. */
  max_steps?: number | null;
  /** The maximum number of messages per minute. */
  messages_per_minute?: number | null;
  /** The maximum number of requests per minute. */
  requests_per_minute?: number | null;
  /** The maximum number of running sessions. */
  sessions_per_operator?: number | null;
  /** The maximum number of running sessions of one project. */
  sessions_per_project?: number | null;
  /** The maximum number of project files that it may validate per minute. */
  validations_per_minute?: number | null;
}

/** PostMessageResponse confirms that the message is stored. */
export interface PostMessageResponse {
  /** The time. */
  accepted_at: number;
  /** The message. */
  id: string;
  /** The limit. */
  limit?: number;
  /** Whether the run waits for a slot. */
  queued?: boolean;
  /** The limit that was reached: per_project or per_operator. */
  reason?: string;
  /** The run that it starts or steers. */
  run_id: string;
  /** The number of running sessions in that scope. */
  running_count?: number;
  /** The session. */
  session_id: string;
  /** Whether the message waits for the next step boundary of that run. */
  steered?: boolean;
}

/** Preferences are the operator's preferences for the console. */
export interface Preferences {
  /** The locale. */
  locale: string;
  /** The theme. */
  theme: string;
  /** The time zone. */
  timezone: string;
}

/** Probe is the body of GET /healthz and GET /readyz. */
export interface Probe {
  /** The reason why requests cannot be served, one sentence; only of /readyz. */
  reason?: string;
  /** ok, ready or starting. */
  status: string;
}

/** Project is a registered project. */
export interface Project {
  /** The plugins in use. */
  active_plugins: ActivePlugin[];
  /** The project's description. */
  description: string;
  /** The errors and warnings about its files, and the warnings about the operator's configuration. */
  diagnostics: ProjectDiagnostic[];
  /** The version of its format. */
  dsl_version: number;
  /** The slug. */
  id: string;
  /** The display name, or null. */
  label: string | null;
  /** When a session of it was last used, null for never. */
  last_opened_at: number | null;
  /** The folder. */
  path: string;
  /** When it was first registered. */
  registered_at: number;
  /** The targets of its aliases: the first of each. */
  resolved_aliases: Record<string, string>;
  /** The number of its sessions. */
  session_count: number;
  /** Whether work can start. */
  state: "unspecified" | "ready" | "pending" | "invalid";
}

/** ProjectActivity is the recent work in a project. */
export interface ProjectActivity {
  /** The use of runs that began in 24 hours. */
  budget_24h: ProjectBudget | null;
  /** The agents below root agents that are running now. */
  live_subagents: number;
  /** Answers of root agents in 24 hours. */
  tool_calls_24h: number;
}

/** ProjectAgent is an agent of the approved version of a project. */
export interface ProjectAgent {
  /** The tree path. */
  agent_path: string;
  /** The first target of the alias, null for an unbound alias. */
  bound_to: string | null;
  /** The agent's cage. */
  cage: AgentCage | null;
  /** The description for the parent's model; empty for the root agent. */
  description: string;
  /** Its limits. */
  limits: AgentLimits | null;
  /** The model's alias. */
  model: string;
  /** The tree path of the parent, null for the root agent. */
  parent_path: string | null;
  /** The prompt file, relative to the project's root. */
  prompt: string;
  /** Every tool of the catalogue, in its order. */
  tools: AgentTool[];
}

/** ProjectBudget is use of models. */
export interface ProjectBudget {
  /** US dollars; calls without a known price count for 0. */
  total_cost: number;
  /** Input. */
  total_tokens_in: number;
  /** Output. */
  total_tokens_out: number;
}

/** ProjectChanged is project.changed: a project was registered, changed or removed. */
export interface ProjectChanged {
  /** The slug. */
  project_id: string;
  /** Whether it was removed. */
  removed: boolean;
  /** Whether work can start; null for a removed project or if unknown. */
  state: "unspecified" | "ready" | "pending" | "invalid" | null;
}

/** ProjectDiagnostic is an error or a warning about a project's files. */
export interface ProjectDiagnostic {
  /** The kind, such as not_in_force or cage_disabled. */
  code: string;
  /** The column, from 1; 0 for none. */
  column: number;
  /** The file, relative to the project's root; local.toml for the operator's configuration. */
  file: string;
  /** The line, from 1; 0 for none. */
  line: number;
  /** One sentence. */
  message: string;
  /** The tree path, or the key of the operator's configuration. */
  path: string;
  /** error or warning. */
  severity: string;
}

/** ProjectEntry is an entry of a folder. */
export interface ProjectEntry {
  /** file, folder, link or other. */
  kind: string;
  /** When its content last changed. */
  modified_at: number;
  /** Its name. */
  name: string;
  /** Its path, relative to the project's root. */
  path: string;
  /** Its size in bytes. */
  size: number;
}

/** ProjectSummary is a project in a list. */
export interface ProjectSummary {
  /** The project's description. */
  description: string;
  /** The slug. */
  id: string;
  /** The display name, or null. */
  label: string | null;
  /** When a session of it was last used, null for never. */
  last_opened_at: number | null;
  /** The folder. */
  path: string;
  /** The number of its sessions. */
  session_count: number;
  /** Whether work can start. */
  state: "unspecified" | "ready" | "pending" | "invalid";
}

/** PromptHeld is events prompt.held: a prompt file that agents can write, or the project's instructions, differs from the accepted text. Until an operator approves it, the run uses the accepted text, or no text if none was accepted. */
export interface PromptHeld {
  /** SHA-256 (hex) of the accepted text, which the run uses; empty for instructions of which no text is accepted. */
  accepted_sha256: string;
  /** The file, relative to the project's root; ./AGENTS.md for the project's instructions. */
  path: string;
  /** The run. */
  run_id: string;
  /** SHA-256 (hex) of the current file; empty for instructions that were removed. */
  sha256: string;
}

/** PromptSummary is a prompt file in the list. */
export interface PromptSummary {
  /** The file, relative to the project's root. */
  path: string;
  /** Whether the file exists. */
  present: boolean;
  /** The time at which its last version was first seen, null if it has no version. */
  updated_at: number | null;
  /** The tree paths that use it. */
  used_by: string[];
  /** The number of versions. */
  version_count: number;
}

/** PromptVersion is a version of a prompt. */
export interface PromptVersion {
  /** The operator that wrote it through kaged, null for a change of the file. */
  author: string | null;
  /** The time at which it was written or first seen. */
  created_at: number;
  /** The SHA-256 of the text in hex. */
  sha256: string;
  /** Its number, from 1. */
  version: number;
}

/** ProposeCompactionResponse holds the proposal. */
export interface ProposeCompactionResponse {
  /** The proposal. On HTTP it is the whole body. */
  answer: CompactSessionResponse | null;
}

/** ProposedCompaction is the plan of a compaction. */
export interface ProposedCompaction {
  /** The share of the window at the end. */
  after_estimate: number;
  /** The estimated cost of the summary in US dollars, null without a model or a price. */
  compactor_cost_usd: number | null;
  /** The stored messages of the conversation, in order. */
  messages: ProposedMessage[];
  /** The participating plugins. */
  plugins_fired: FiredPlugin[];
  /** The superseded parts. */
  spans: CompactionSpan[];
  /** The text that replaces the superseded parts, or null. For summarize it is a placeholder. */
  summary_message: SummaryMessage | null;
  /** The stored messages with superseded parts. */
  superseded_message_ids: string[];
  /** The share of the window at the beginning. */
  threshold_estimate: number;
  /** operator_manual. */
  trigger: string;
}

/** ProposedMessage is a stored message of a conversation. */
export interface ProposedMessage {
  /** keep, prune for one with pruned results, supersede for one with superseded parts, or summary. */
  action: string;
  /** The message. */
  id: string;
  /** Its author. */
  role: "unspecified" | "operator" | "primary" | "subagent" | "system";
}

/** Provider is a provider of models. No secret of it is shown. */
export interface Provider {
  /** "<redacted>" for a key, or null. */
  api_key: string | null;
  /** The base URL without credentials and query, null for the driver's own. */
  base_url: string | null;
  /** The driver. */
  driver: string;
  /** The names of its own headers. */
  headers: string[];
  /** The name. */
  name: string;
  /** The reason why not, null if usable. */
  reason: string | null;
  /** Whether calls can be sent to it. */
  usable: boolean;
}

/** PutDslResponse says whether the project file was saved. If it was not, the HTTP status is 422. */
export interface PutDslResponse {
  /** The errors about names that contradict each other. */
  cross_ref_errors: string[];
  /** Its errors. */
  diagnostics: DslDiagnostic[];
  /** The error, as in the body of any refusal; unset if it was saved. */
  error?: ErrorObject;
  /** Whether it was saved. */
  saved: boolean;
  /** The SHA-256 of the saved text in hex. */
  sha256?: string;
  /** The project's state after it was saved. */
  state?: "unspecified" | "ready" | "pending" | "invalid";
  /** Whether it compiles. */
  valid: boolean;
  /** Its warnings. */
  warnings: string[];
}

/** PutPromptResponse is the version that was written. */
export interface PutPromptResponse {
  /** The file. */
  path: string;
  /** The SHA-256 of the text in hex. */
  sha256: string;
  /** Its number. A text that equals the last version creates no new version. */
  version: number;
}

/** QueryAuditResponse is a page. */
export interface QueryAuditResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The entries, newest first. */
  items: AuditEntry[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** RecentRun is a summary of a run. */
export interface RecentRun {
  /** US dollars, null if no call has a known price. */
  cost_total: number | null;
  /** Its creation time. */
  created_at: number;
  /** Its duration in milliseconds, null before its end. */
  duration_ms: number | null;
  /** The run. */
  id: string;
  /** Its session. */
  session_id: string;
  /** The state. */
  state: "unspecified" | "pending" | "running" | "completed" | "paused" | "failed" | "cancelled";
  /** Input. */
  tokens_in: number;
  /** Output. */
  tokens_out: number;
}

/** RegisteredProject is a project in answers to load and reload. */
export interface RegisteredProject {
  /** The warnings about the project file and about the operator's configuration, with their places. */
  diagnostics: ProjectDiagnostic[];
  /** The slug. */
  id: string;
  /** The display name, or null. */
  label: string | null;
  /** The folder. */
  path: string;
  /** When it was first registered. */
  registered_at: number;
  /** Whether work can start. */
  state: "unspecified" | "ready" | "pending" | "invalid";
  /** The missing parts; only while the state is pending. */
  unresolved?: Unresolved;
  /** The warnings about the project file. */
  warnings?: string[];
}

/** ReleaseWorkspaceResponse is the workspace. */
export interface ReleaseWorkspaceResponse {
  /** The workspace after the change. On HTTP it is the whole body. */
  workspace: AdminWorkspace | null;
}

/** ReloadProjectResponse holds the reloaded project. */
export interface ReloadProjectResponse {
  /** The project. On HTTP it is the whole body. */
  project: RegisteredProject | null;
}

/** RestartLanguageServersResponse says which were ended. */
export interface RestartLanguageServersResponse {
  /** The servers. */
  servers: RunningLanguageServer[];
}

/** ResumeSessionResponse confirms that the run has started. */
export interface ResumeSessionResponse {
  /** The time. */
  resumed_at: number;
  /** The run. */
  run_id: string;
  /** The session. */
  session_id: string;
  /** running. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
}

/** RevokeStandingApprovalResponse holds it as it is now. */
export interface RevokeStandingApprovalResponse {
  /** The standing approval after the change. On HTTP it is the whole body. */
  standing_approval: StandingApproval | null;
}

/** RevokeTokenResponse is the revoked token. */
export interface RevokeTokenResponse {
  /** The token. */
  token: Token | null;
}

/** Run is a run in full. */
export interface Run {
  /** Whether the root agent is in a cage: caged, uncaged, or pending until its cage is created. If the cage could not be created, it stays pending. */
  cage_status: string;
  /** The hash of its snapshot. */
  compiled_hash: string;
  /** US dollars, null if no price is known. */
  cost_total: number | null;
  /** Its creation time. */
  created_at: number;
  /** Its duration in milliseconds, null before its end. */
  duration_ms: number | null;
  /** Its end, null before. */
  ended_at: number | null;
  /** The error of a failure, or null. */
  error: Error | null;
  /** The run. */
  id: string;
  /** The message that it writes. */
  message_id: string;
  /** Its outcome, null before its end. */
  outcome: string | null;
  /** The prompts in effect: path to SHA-256. */
  prompt_hashes: Record<string, string>;
  /** Its session. */
  session_id: string;
  /** Its start, null while it is pending. */
  started_at: number | null;
  /** Its state. */
  state: "unspecified" | "pending" | "running" | "completed" | "paused" | "failed" | "cancelled";
  /** Its steps. */
  steps: RunStep[];
  /** The model's last reason to stop, or null. */
  stop_reason: string | null;
  /** Its invocations of agents. */
  subagent_invocations: SubagentInvocation[];
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
  /** The message that started it. */
  trigger_message_id: string;
}

/** RunCage is events run.cage: an agent's cage was created, is missing because cages are off, or has ended. */
export interface RunCage {
  /** The agent's tree path. */
  agent_path: string;
  /** The parts of the policy that are enforced by polling and not by the kernel, each a sentence. */
  best_effort?: string[];
  /** caged or uncaged. */
  cage_status: string;
  /** Why the cage has ended before the run: oom, pids, walltime, disk, owner_ended or lost. */
  ended?: string;
  /** Files in the writable folders that may make tools outside the cage run code; known at the cage's end. */
  found?: CageFinding[];
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** Hints about a new cage for the operator, each a sentence: unsearched folders. */
  notes?: string[];
  /** The policy in one line. */
  policy?: string;
  /** The run. */
  run_id: string;
  /** How the cage is enforced: userns or setuid. */
  tier?: string;
}

/** RunEnded is events run.ended. */
export interface RunEnded {
  /** US dollars, null if no price is known. */
  cost_usd: number | null;
  /** The error of a failure. */
  error?: Error;
  /** completed, paused, failed or cancelled. */
  outcome: string;
  /** The run. */
  run_id: string;
  /** The number of answered model calls. */
  steps: number;
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
}

/** RunRetry is events run.retry: a model call failed before it was accepted, or its answer was retracted, and it is repeated. */
export interface RunRetry {
  /** The number of the failed attempt, from 1. */
  attempt: number;
  /** The pause before the next attempt, in milliseconds. */
  delay_ms: number;
  /** The error. */
  error: Error | null;
  /** The invocation, absent for the root agent. */
  invocation_id?: string;
  /** The model of the next attempt. */
  model: string;
  /** The provider of the next attempt. */
  provider: string;
  /** The run. */
  run_id: string;
}

/** RunStarted is events run.started. */
export interface RunStarted {
  /** The message that started it. */
  message_id: string;
  /** The run. */
  run_id: string;
}

/** RunStep is one turn of the model and the results of its tools. */
export interface RunStep {
  /** When its turn was stored. */
  created_at: number;
  /** The model. */
  model: string;
  /** The model's output. */
  parts: MessagePart[];
  /** The provider. */
  provider: string;
  /** Its measurements. */
  stats: FrameStats | null;
  /** From 1. */
  step: number;
  /** The reason for its end. */
  stop_reason: string;
  /** Its use of tokens. */
  usage: FrameUsage | null;
}

/** RunSummary is a run in a list. */
export interface RunSummary {
  /** US dollars, null if no price is known. */
  cost_total: number | null;
  /** Its creation time. */
  created_at: number;
  /** Its duration in milliseconds, null before its end. */
  duration_ms: number | null;
  /** Its end, null before. */
  ended_at: number | null;
  /** The error of a failure, or null. */
  error: Error | null;
  /** The run. */
  id: string;
  /** Its outcome, null before its end. */
  outcome: string | null;
  /** Its session. */
  session_id: string;
  /** Its start, null while it is pending. */
  started_at: number | null;
  /** Its state. */
  state: "unspecified" | "pending" | "running" | "completed" | "paused" | "failed" | "cancelled";
  /** The number of its steps. */
  steps: number;
  /** Its invocations of agents. */
  subagent_invocations: SubagentInvocation[];
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
  /** The message that started it. */
  trigger_message_id: string;
}

/** RunningCage is a live cage. */
export interface RunningCage {
  /** The tree path of the agent in it. */
  agent_path: string;
  /** The parts of its policy that are enforced by polling and not by the kernel, each a sentence. */
  best_effort: string[];
  /** CPU time of all its processes so far, in milliseconds. */
  cpu_ms: number;
  /** Its id. */
  id: string;
  /** Resident memory of its processes in bytes. */
  memory_bytes: number;
  /** The number of its processes. */
  processes: number;
  /** The project. */
  project_id: string;
  /** The run for which it was created. */
  run_id: string;
  /** The session, with which it ends. */
  session_id: string;
  /** Its creation time. */
  started_at: number;
  /** Its tier: userns, or setuid for root without user namespaces. */
  tier: string;
}

/** RunningCount is sessions.running_count: the number of the operator's sessions with a run in progress. It is sent after system.hello and at each change. */
export interface RunningCount {
  /** The configured limits. */
  limits: RunningLimits | null;
  /** By operator: the socket's own. */
  per_operator: Record<string, number>;
  /** By project; projects without such a session are omitted. */
  per_project: Record<string, number>;
  /** The sum. */
  total: number;
}

/** RunningLanguageServer is a language server that is running, stopped or failed. */
export interface RunningLanguageServer {
  /** Whether it runs in a cage. */
  caged: boolean;
  /** The command line. */
  command: string[];
  /** Its id. */
  id: string;
  /** The language. */
  lang: string;
  /** The last part of its standard error. */
  log: string;
  /** The number of its open documents. */
  open_files: number;
  /** Its process id, or 0. */
  pid: number;
  /** The project and its root. */
  project_id: string;
  /** The number of restarts after crashes. */
  restart_count: number;
  /** The root. */
  root: string;
  /** When it started, in milliseconds. */
  started_at: number;
  /** "starting", "indexing", "ready", "stopped" or "failed". */
  state: string;
}

/** RunningLimits are the maximum numbers of sessions with a run in progress. */
export interface RunningLimits {
  /** Of one operator. */
  per_operator: number;
  /** Of one project. */
  per_project: number;
}

/** RunningProcess is a command that runs for a session. */
export interface RunningProcess {
  /** The tree path of the agent that called the tool, such as primary.subagents.tester. */
  agent_path: string;
  /** Whether it continues after the end of the tool call that started it. */
  background: boolean;
  /** The cage it runs in, or null. */
  cage_id: string | null;
  /** The command line, shortened. */
  command: string;
  /** CPU time in milliseconds of it and its descendants. */
  cpu_ms: number;
  /** Its id. */
  id: string;
  /** Resident memory in bytes of it and its descendants. */
  memory_bytes: number;
  /** Its process id as the host sees it. */
  pid: number;
  /** The project. */
  project_id: string;
  /** The run of the tool call that started it. */
  run_id: string;
  /** The session, with which it ends. */
  session_id: string;
  /** When it started. */
  started_at: number;
  /** Whether it has a terminal. The channel pty:<id> of its session's socket shows a background process. */
  terminal: boolean;
}

/** SearchSessionsResponse is a page. */
export interface SearchSessionsResponse {
  /** Whether there is a next page. */
  has_more: boolean;
  /** The sessions. */
  items: FoundSession[];
  /** The cursor of the next page, null on the last page. */
  next_cursor: string | null;
}

/** Session is a session in full. */
export interface Session {
  /** The obstacle beside the state, or null: provider_unreachable, context_overflow, or resume_pending while an interrupted run is about to continue in a new run. */
  blocked_reason: string | null;
  /** Its budget and the used amount; null in answers that do not compute it. */
  budget: SessionBudget | null;
  /** Whether the root agent of the current run is in a cage: caged, uncaged or pending; null without a run. */
  cage_status: string | null;
  /** Its start. */
  created_at: number;
  /** The pending or running run, or null. */
  current_run: string | null;
  /** Its end, null before. */
  ended_at: number | null;
  /** The session. */
  id: string;
  /** The issue that the session works on, or null. */
  issue_number: number | null;
  /** The same as name. */
  label: string | null;
  /** The running agents below the root. */
  live_subagents: LiveSubagent[];
  /** In place of the project's max_output_tokens, or null. */
  max_output_tokens_override: number | null;
  /** In place of the project's max_steps, or null. */
  max_steps_override: number | null;
  /** The number of its messages. */
  message_count: number;
  /** "provider:model" in place of the project's alias, or null. */
  model_override: string | null;
  /** The display name, or null. */
  name: string | null;
  /** Its project. */
  project_id: string;
  /** Its state. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
  /** The use and cost of its runs so far. */
  totals: SessionTotals | null;
  /** The time of its last change. */
  updated_at: number;
}

/** SessionBudget is a session's budget, and its use. */
export interface SessionBudget {
  /** The usage by agent. */
  by_agent: AgentUse[];
  /** Its budget, or null. */
  limit: BudgetLimit | null;
  /** The maximum usage of the calls in progress. */
  reserved: BudgetUse | null;
  /** The used amount. */
  spent: BudgetUse | null;
}

/** SessionChanged is session.changed: a session was created, or its state, run or name changed. */
export interface SessionChanged {
  /** The obstacle beside the state, or null. */
  blocked_reason: string | null;
  /** The operator's name for it, or null. */
  name: string | null;
  /** The project. */
  project_id: string;
  /** The pending or running run, or null. */
  run_id: string | null;
  /** The session. */
  session_id: string;
  /** The state. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
  /** The time of the change. */
  updated_at: number;
}

/** SessionCompaction is a completed compaction. */
export interface SessionCompaction {
  /** The share of the window at the end. */
  after_estimate: number;
  /** The tree path of the agent. */
  agent_path: string;
  /** The use of a summarizer, or null. */
  compactor_cost: CompactorCost | null;
  /** The time. */
  created_at: number;
  /** Its duration in milliseconds. */
  duration_ms: number;
  /** Whether a fallback strategy was used. */
  fallback_occurred: boolean;
  /** The cause of that, or null. */
  fallback_reason: string | null;
  /** The compaction. */
  id: string;
  /** good, bad, neutral or null. */
  operator_flag: string | null;
  /** The operator's notes, or null. */
  operator_notes: string | null;
  /** The use of a compactor plugin, or null. */
  plugin_cost: CompactorCost | null;
  /** The participating plugins. */
  plugins_fired: FiredPlugin[];
  /** The run, null for a manual one. */
  run_id: string | null;
  /** The session. */
  session_id: string;
  /** The superseded parts. */
  spans: CompactionSpan[];
  /** The configured strategy. */
  strategy: string;
  /** The text that replaces the superseded parts. */
  summary: string;
  /** The text that replaces them; only in the answer about one compaction. */
  summary_message?: SummaryMessage;
  /** The message with the summary, null if no model wrote one. */
  summary_message_id: string | null;
  /** The number of superseded messages of the conversation, results included. */
  superseded_count: number;
  /** The stored messages with superseded parts; only in the answer about one compaction. */
  superseded_messages?: SupersededMessage[];
  /** The share of the window at the beginning. */
  threshold_estimate: number;
  /** threshold_crossed, provider_overflow_retry or operator_manual. */
  trigger: string;
  /** When it was undone, null for a valid one. */
  undone_at: number | null;
  /** The agent's lower threshold. */
  window_lower: number;
  /** The window of the model in tokens. */
  window_tokens: number;
  /** The agent's upper threshold. */
  window_upper: number;
}

/** SessionCounts are sessions by state. */
export interface SessionCounts {
  /** Ended. */
  ended: number;
  /** Idle sessions, and failed ones, which also accept a message. */
  idle: number;
  /** Paused sessions. */
  paused: number;
  /** Queued sessions. */
  queued: number;
  /** Sessions with a run in progress. */
  running: number;
  /** The sum. */
  total: number;
}

/** SessionMessage is a stored message. */
export interface SessionMessage {
  /** The step after which the root agent read it; only of a message that steered the run. */
  after_step?: number;
  /** Whether no compaction may supersede it. */
  always_keep?: boolean;
  /** The text. */
  content: string;
  /** The time. */
  created_at: number;
  /** The message. */
  id: string;
  /** Its origin; only for a model's message. */
  metadata?: MessageMetadata;
  /** The parts of a message that is more than one text. */
  parts?: MessagePart[];
  /** Its author. */
  role: "unspecified" | "operator" | "primary" | "subagent" | "system";
  /** Its run, or null. */
  run_id: string | null;
  /** The session. */
  session_id: string;
  /** The invocation it is from, only where the role is subagent. */
  subagent_invocation_id?: string;
  /** Whether it was rolled back or discarded. */
  superseded: boolean;
}

/** SessionPrompt is a part of the system prompt of a running agent, as the model reads it: its prompt file, or the project's instructions after it. */
export interface SessionPrompt {
  /** The agent's tree path. */
  agent_path: string;
  /** Its invocation, null for the root agent. */
  invocation_id: string | null;
  /** The file, relative to the project's root; ./AGENTS.md for the project's instructions. */
  path: string;
  /** The SHA-256 of the text in hex. */
  sha256: string;
  /** The text. */
  text: string;
}

/** SessionStateChanged is events session.state. */
export interface SessionStateChanged {
  /** The obstacle beside the state; see Session.blocked_reason. */
  blocked_reason?: string;
  /** Its state. */
  state: string;
}

/** SessionSummary is a session in a list. */
export interface SessionSummary {
  /** Its start. */
  created_at: number;
  /** The session. */
  id: string;
  /** The issue that the session works on, or null. */
  issue_number: number | null;
  /** The same as name. */
  label: string | null;
  /** In place of the project's max_output_tokens, or null. */
  max_output_tokens_override: number | null;
  /** In place of the project's max_steps, or null. */
  max_steps_override: number | null;
  /** The number of its messages. */
  message_count: number;
  /** "provider:model" in place of the project's alias, or null. */
  model_override: string | null;
  /** The display name, or null. */
  name: string | null;
  /** Its project. */
  project_id: string;
  /** Its state. */
  state: "unspecified" | "idle" | "queued" | "running" | "paused" | "failed" | "ended";
  /** The time of its last change. */
  updated_at: number;
}

/** SessionTotals sums a session's runs. */
export interface SessionTotals {
  /** US dollars, null if no price is known. */
  cost_usd: number | null;
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
}

/** SetLocalConfigResponse is the configuration. */
export interface SetLocalConfigResponse {
  /** The configuration after the change. On HTTP it is the whole body. */
  config: LocalConfig | null;
}

/** SetOperatorConfigResponse is the configuration. */
export interface SetOperatorConfigResponse {
  /** The configuration after the change. On HTTP it is the whole body. */
  config: OperatorConfig | null;
}

/** SetOperatorLimitsResponse is the operator. */
export interface SetOperatorLimitsResponse {
  /** The operator after the change. On HTTP it is the whole body. */
  operator: AdminOperator | null;
}

/** SignalProcessResponse is empty: the signal was sent. */
export interface SignalProcessResponse {}

/** SpendGroup is the calls of one project to one model. */
export interface SpendGroup {
  /** provider:model. */
  model: string;
  /** The project. */
  project_id: string;
  /** Their use. */
  sum: SpendSum | null;
}

/** SpendSum is the use of model calls. Calls to a model without a known price cost 0. */
export interface SpendSum {
  /** Requests sent. */
  calls: number;
  /** US dollars. */
  cost_usd: number;
  /** The number of calls with estimated usage, because their usage is unknown. */
  estimated: number;
  /** Tokens, input and output. */
  tokens: number;
}

/** StandingApproval covers later calls of an agent without a question. */
export interface StandingApproval {
  /** The approval that was answered with it. */
  approval_id: string;
  /** Its creation time. */
  created_at: number;
  /** The operator who made it. */
  created_by: string;
  /** Its id. */
  id: string;
  /** command, words or files. */
  kind: string;
  /** The time of the last such call, null for never. */
  last_used_at: number | null;
  /** The project. */
  project_id: string;
  /** The time of its revocation, null while it is in force. */
  revoked_at: number | null;
  /** The operator who revoked it. */
  revoked_by: string | null;
  /** session or project. */
  scope: string;
  /** The session, null for all of the project. */
  session_id: string | null;
  /** The request that was shown when it was created. */
  subject: ApprovalSubject | null;
  /** The calls that it covers, as a sentence. */
  text: string;
  /** The number of calls that it has allowed. */
  used: number;
  /** Of words: the first words of the commands. */
  words?: string[];
}

/** StandingOffer is a standing approval that an answer may create. */
export interface StandingOffer {
  /** command, words or files. */
  kind: string;
  /** The calls that it would cover, as a sentence. */
  text: string;
  /** Of words: the first words of the command that later ones must share, unless the answer says more. */
  words?: string[];
}

/** SubagentEnd is output subagent.end: an invocation has ended and is stored. It precedes the result of the call that began it. */
export interface SubagentEnd {
  /** Their cost in US dollars, null if a price is unknown. */
  cost_usd: number | null;
  /** The time. */
  ended_at: number;
  /** The error of a failure. */
  error?: Error;
  /** 0 completed, 1 failed, 130 cancelled. */
  exit: number;
  /** The first 200 files that it and agents below it changed. */
  files_changed: string[];
  /** The invocation. */
  invocation_id: string;
  /** completed, failed or cancelled. */
  outcome: string;
  /** The number of its answered model calls. */
  steps: number;
  /** The usage of its own steps, without agents below it. */
  usage: FrameUsage | null;
}

/** SubagentInvocation is one call of an agent by another. */
export interface SubagentInvocation {
  /** The agent's tree path. */
  agent_path: string;
  /** Its cage's policy, absent without one. */
  cage_policy?: InvocationCage;
  /** Whether the agent is in a cage: caged, uncaged, or pending until its cage is created. */
  cage_status: string;
  /** US dollars, null if no price is known. */
  cost_usd: number | null;
  /** Its end, null before. */
  ended_at: number | null;
  /** The error of a failure, or null. */
  error: Error | null;
  /** 0 completed, 1 failed, 130 cancelled; null while it has not ended. */
  exit: number | null;
  /** The invocation. */
  invocation_id: string;
  /** The agent's key. */
  name: string;
  /** Its last text. */
  output?: string;
  /** The invocation that called it, null for the root agent. */
  parent_invocation_id: string | null;
  /** Its caller's prompt, shortened if the answer is too large. This field and those below are only set in the answers about one run and one invocation. */
  prompt?: string;
  /** The run. */
  run_id: string;
  /** Its start. */
  started_at: number;
  /** pending, running, completed, failed or cancelled. */
  state: string;
  /** The number of its answered model calls. Agents below it are not included, here and in the fields that follow. */
  steps: number;
  /** Input tokens, cached ones included. */
  tokens_in: number;
  /** Output tokens. */
  tokens_out: number;
  /** The caller's call. */
  tool_call_id: string;
  /** The names of its tools, those of its children last. */
  tools?: string[];
}

/** SubagentOutput is output subagent.output: output of an agent below the root, or of a tool of it. */
export interface SubagentOutput {
  /** The invocation. */
  invocation_id: string;
  /** text or thinking of the model, or tool. */
  kind: string;
  /** stdout, or stderr of a tool. */
  stream: string;
  /** The text. */
  text: string;
  /** The tool call, for output of a tool. */
  tool_call_id?: string;
}

/** SubagentRetract is output subagent.retract: a model's answer for an agent below the root broke off and is requested again. Every output of kind text or thinking since the last tool result of the invocation, or since its start, is void. */
export interface SubagentRetract {
  /** The invocation. */
  invocation_id: string;
  /** The reason, a sentence. */
  reason: string;
  /** The step of the invocation. */
  step: number;
}

/** SubagentStart is output subagent.start: an agent calls another, which begins an invocation. It follows message.tool_call or subagent.tool_call of that call. An invocation without a subagent.end before the end of its run was not stored. */
export interface SubagentStart {
  /** Its tree path. */
  agent_path: string;
  /** pending while its cage is created, or uncaged; events run.cage has later states. */
  cage_status: string;
  /** The invocation. */
  invocation_id: string;
  /** The agent's key. */
  name: string;
  /** The invocation that called it, null for the root agent. */
  parent_invocation_id: string | null;
  /** The run. */
  run_id: string;
  /** The time. */
  started_at: number;
  /** The caller's call. */
  tool_call_id: string;
}

/** SubagentToolCall is output subagent.tool_call: a tool of an agent below the root is about to run. */
export interface SubagentToolCall {
  /** The tool call. */
  id: string;
  /** Its parameters as JSON; a string if they are not JSON or nest deeper than 100 levels. */
  input: unknown;
  /** The invocation. */
  invocation_id: string;
  /** The tool. */
  name: string;
  /** Whether input was shortened; the stored step has it whole. */
  truncated?: boolean;
}

/** SubagentToolResult is output subagent.tool_result. */
export interface SubagentToolResult {
  /** Its duration in milliseconds. */
  duration_ms: number;
  /** The invocation. */
  invocation_id: string;
  /** Whether it failed. */
  is_error: boolean;
  /** The tool. */
  name: string;
  /** Its result. */
  output: string;
  /** The tool call. */
  tool_call_id: string;
  /** Whether output was shortened; the stored step has it whole. */
  truncated?: boolean;
}

/** SummaryMessage is the text that replaces superseded parts. */
export interface SummaryMessage {
  /** The text. */
  content: string;
  /** The message, missing for one that is not stored by itself. */
  id?: string;
  /** Its origin. */
  metadata: SummaryMetadata | null;
  /** system. */
  role: string;
}

/** SummaryMetadata describes the origin of a summary. */
export interface SummaryMetadata {
  /** The cost of the model that wrote it; missing if no model did. */
  compactor_cost?: CompactorCost;
  /** compaction_summary. */
  kind: string;
}

/** SupersededMessage is a stored message with superseded parts. */
export interface SupersededMessage {
  /** Its text; a long one is shortened. */
  content: string;
  /** The time. */
  created_at: number;
  /** The message. */
  id: string;
  /** Its author. */
  role: "unspecified" | "operator" | "primary" | "subagent" | "system";
}

/** SystemHello is system.hello, the first frame of a system socket. */
export interface SystemHello {
  /** The version of kaged. */
  daemon_version: string;
  /** The number of the frame before this one. It is 0, because each socket numbers its own frames. */
  server_seq: number;
}

/** SystemMissed is system.missed: notices may have been lost; a client must read its data again. */
export interface SystemMissed {}

/** TodoNote is a note on a todo. */
export interface TodoNote {
  /** Its author. */
  author: string;
  /** The time. */
  created_at: number;
  /** The text. */
  text: string;
}

/** Token is a named API token without its text. */
export interface Token {
  /** Its creation time. */
  created_at: number;
  /** Its expiry, null for never. */
  expires_at: number | null;
  /** The token. */
  id: string;
  /** The time of the last request with it, to the minute; null for never. */
  last_used_at: number | null;
  /** Its name, unique among the operator's valid tokens. */
  name: string;
  /** Its rights. */
  scope: "unspecified" | "read" | "run" | "admin";
}

/** ToolCapabilities divides the catalogue's tools. */
export interface ToolCapabilities {
  /** The canonical names of the other tools. */
  disabled: string[];
  /** The canonical names of the root agent's tools, after the rules of the operator and the project. */
  enabled: string[];
}

/** UndoCompactionResponse holds the compaction as it is now. */
export interface UndoCompactionResponse {
  /** The compaction after the change. On HTTP it is the whole body. */
  compaction: SessionCompaction | null;
}

/** UnregisterProjectResponse is the removed project. */
export interface UnregisterProjectResponse {
  /** The slug. */
  id: string;
  /** The folder, which is not changed. */
  path: string;
  /** The number of sessions that were ended. */
  sessions_ended: number;
  /** The time. */
  unregistered_at: number;
}

/** Unresolved lists the missing parts of a pending project. */
export interface Unresolved {
  /** Model aliases without a binding. */
  aliases: UnresolvedAlias[];
  /** Plugins that are not installed. */
  plugins: UnresolvedPlugin[];
  /** Missing prompt files. */
  prompts: UnresolvedPrompt[];
}

/** UnresolvedAlias is an alias without a binding. */
export interface UnresolvedAlias {
  /** The alias. */
  name: string;
  /** The agents that use it. */
  used_by: string[];
}

/** UnresolvedPlugin is a plugin that is not installed. */
export interface UnresolvedPlugin {
  /** The slot. */
  name: string;
  /** The package. */
  package: string;
  /** Its source. */
  source: string;
  /** Its error. */
  status: string;
}

/** UnresolvedPrompt is a missing prompt file. */
export interface UnresolvedPrompt {
  /** The path. */
  path: string;
  /** The tree paths that use it. */
  used_by: string[];
}

/** UpdateCompactionResponse holds the compaction as it is now. */
export interface UpdateCompactionResponse {
  /** The compaction after the change. On HTTP it is the whole body. */
  compaction: SessionCompaction | null;
}

/** UpdateIssueResponse holds the issue as it is now. */
export interface UpdateIssueResponse {
  /** The status that it had before. */
  from: "unspecified" | "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened";
  /** The issue. On HTTP it is the whole body. */
  issue: Issue | null;
}

/** UpdateIssueTodoResponse holds the todo as it is now. */
export interface UpdateIssueTodoResponse {
  /** The todo. On HTTP it is the whole body. */
  todo: IssueTodo | null;
}

/** UpdateMessageResponse holds the message as it is now. */
export interface UpdateMessageResponse {
  /** The message after the change. On HTTP it is the whole body. */
  message: SessionMessage | null;
}

/** UpdateProjectResponse holds the project. */
export interface UpdateProjectResponse {
  /** The project. On HTTP it is the whole body. */
  project: ProjectSummary | null;
}

/** UpdateSessionResponse holds the session as it is now. */
export interface UpdateSessionResponse {
  /** The session after the change. On HTTP it is the whole body. */
  session: Session | null;
}

/** ValidateDslResponse says whether a project file is valid by itself. If it is not, the HTTP status is 422. */
export interface ValidateDslResponse {
  /** The errors about names that contradict each other. */
  cross_ref_errors: string[];
  /** Its errors. */
  diagnostics: DslDiagnostic[];
  /** The error, as in the body of any refusal; unset if it is valid. */
  error?: ErrorObject;
  /** Whether it is. */
  valid: boolean;
  /** Its warnings. */
  warnings: string[];
}

/** Versions is the body of GET /api/versions. */
export interface Versions {
  /** The one to use. */
  current: string;
  /** The version of the daemon. */
  daemon_version: string;
  /** The versions of the API. */
  versions: string[];
}

/** Widening is a grant of the files that the approved version lacks. */
export interface Widening {
  /** The tree path of the agent; empty for the project. */
  agent_path: string;
  /** The approved version's grant, or null. */
  from: string | null;
  /** The key, such as cage, cage.fs, tools or system_prompt. */
  key: string;
  /** The files' grant. */
  to: string | null;
}

/** Routes maps "METHOD /path" to parameters, body and answer. */
export interface Routes {
  /** The console. */
  "GET /": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** ListAdminAudit lists the audit log of all operators without the details of the entries, newest first. */
  "GET /api/v1/admin/audit": {
    params: { since?: number; until?: number; operator_id?: string; event_type?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListAdminAuditResponse;
  };
  /** ListOperators lists the operators of the deployment with their use of the last 30 days. */
  "GET /api/v1/admin/operators": {
    params: { limit?: number; cursor?: string };
    body: undefined;
    answer: ListOperatorsResponse;
  };
  /** GetOperatorConfig returns the administrators' configuration for an operator; the operator's own is not shown. Fails with not_found for an operator that the deployment does not know. */
  "GET /api/v1/admin/operators/{operator_id}/config": {
    params: { operator_id: string };
    body: undefined;
    answer: OperatorConfig;
  };
  /** SetOperatorConfig replaces the administrators' configuration for an operator. It is laid over the deployment's configuration and the operator's own, and applies from the operator's next message. It is TOML with the tables models, default_tools and ui, and the key operator_name. Fails with validation_failed (details line and column if known) for another key, a reference to the environment, and an alias of a provider that the deployment does not have, and with not_found. */
  "PUT /api/v1/admin/operators/{operator_id}/config": {
    params: { operator_id: string };
    body: { document?: string | null };
    answer: OperatorConfig;
  };
  /** DisableOperator makes all later requests of the operator fail with forbidden (details.reason operator_disabled). A run in progress continues; drain the workspace to stop it. Fails with conflict for the caller, and with not_found. */
  "POST /api/v1/admin/operators/{operator_id}/disable": {
    params: { operator_id: string };
    body: {};
    answer: AdminOperator;
  };
  /** EnableOperator undoes DisableOperator. Fails with not_found. */
  "POST /api/v1/admin/operators/{operator_id}/enable": {
    params: { operator_id: string };
    body: {};
    answer: AdminOperator;
  };
  /** SetOperatorLimits replaces the limits and the budget of an operator; they apply from the operator's next message, or from the next model call of a run in progress. Fails with validation_failed, and with not_found for an operator that the deployment does not know. */
  "PUT /api/v1/admin/operators/{operator_id}/limits": {
    params: { operator_id: string };
    body: { budget?: OperatorBudgetInput | null; limits?: OperatorLimitsInput | null };
    answer: AdminOperator;
  };
  /** ListWorkspaces lists the workspaces of the deployment. */
  "GET /api/v1/admin/workspaces": {
    params: {  };
    body: undefined;
    answer: ListWorkspacesResponse;
  };
  /** ActivateWorkspace undoes DrainWorkspace. Fails with not_found. */
  "POST /api/v1/admin/workspaces/{name}/activate": {
    params: { name: string };
    body: {};
    answer: AdminWorkspace;
  };
  /** DrainWorkspace starts no further run in a workspace, and stops the runs in progress at their next safe points: they continue once the workspace is active again. Fails with not_found. */
  "POST /api/v1/admin/workspaces/{name}/drain": {
    params: { name: string };
    body: {};
    answer: AdminWorkspace;
  };
  /** ReleaseWorkspace takes a drained workspace with an empty projects folder from its operator, so that it can be assigned to another. Fails with conflict (details.reason not_drained, runs_at_work or not_empty), with unavailable while the workspace is unreachable, and with not_found. */
  "POST /api/v1/admin/workspaces/{name}/release": {
    params: { name: string };
    body: {};
    answer: AdminWorkspace;
  };
  /** ListAllApprovals lists the requests for approval of all sessions of the operator, newest first, a page at a time. state=pending selects the open ones. Fails with validation_failed for an unknown state. */
  "GET /api/v1/approvals": {
    params: { state?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListAllApprovalsResponse;
  };
  /** QueryAudit returns entries, newest first, a page at a time. Fails with validation_failed. */
  "GET /api/v1/audit": {
    params: { since?: number; until?: number; project_id?: string; session?: string; event_type?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: QueryAuditResponse;
  };
  /** Signs every other browser out: all earlier cookies are revoked, and the caller's browser gets new ones. Loopback mode only, and not for API tokens. */
  "POST /api/v1/auth/rotate": {
    params: {  };
    body: undefined;
    answer: Launched;
  };
  /** GetDoctor checks the stores, the operator's models and the default workspace: cages, language servers, git. It changes nothing and calls no provider. An unreachable part is a failed check. */
  "GET /api/v1/doctor": {
    params: {  };
    body: undefined;
    answer: GetDoctorResponse;
  };
  /** Returns the JSON Schema of the project file. */
  "GET /api/v1/dsl/schema": {
    params: { version?: string };
    body: undefined;
    answer: {
  schema?: Record<string, unknown>;
  version?: number;
};
  };
  /** ValidateDsl checks a project file by itself: it assumes that the named files exist, and does not read other projects. Fails with validation_failed without a text, and with payload_too_large. */
  "POST /api/v1/dsl/validate": {
    params: {  };
    body: { dsl?: string | null };
    answer: ValidateDslResponse;
  };
  /** ListLanguageServers lists the language servers of one project or all of the operator's, the oldest first. Fails with not_found for the project, and with unavailable while a workspace is unreachable. */
  "GET /api/v1/language-servers": {
    params: { project_id?: string };
    body: undefined;
    answer: ListLanguageServersResponse;
  };
  /** Signs a browser in with a launch token. Answers with JSON to a client that accepts it, else with 302 to the home page. Loopback mode only. */
  "GET /api/v1/launch": {
    params: { token?: string };
    body: undefined;
    answer: Launched;
  };
  /** ListAliases lists the model aliases by name. */
  "GET /api/v1/local/aliases": {
    params: {  };
    body: undefined;
    answer: ListAliasesResponse;
  };
  /** GetLocalConfig returns the calling operator's own configuration in a deployment that operators share, and the administrators' for them. Fails with conflict (details.reason one_operator) in a deployment of one operator. */
  "GET /api/v1/local/config": {
    params: {  };
    body: undefined;
    answer: LocalConfig;
  };
  /** SetLocalConfig replaces the calling operator's own configuration, which is laid over the deployment's and below the administrators' for them. It applies from the next message. It is TOML with the tables models and ui, and the key operator_name. Fails with conflict as GetLocalConfig does, and with validation_failed (details line and column if known) for another key, a reference to the environment, and an alias of a provider that the deployment does not have. */
  "PUT /api/v1/local/config": {
    params: {  };
    body: { document?: string | null };
    answer: LocalConfig;
  };
  /** ListProviders lists the providers by name, without their secrets. */
  "GET /api/v1/local/providers": {
    params: {  };
    body: undefined;
    answer: ListProvidersResponse;
  };
  /** Returns the caller and the daemon; sets the CSRF cookie. */
  "GET /api/v1/me": {
    params: {  };
    body: undefined;
    answer: Me;
  };
  /** Returns this description. */
  "GET /api/v1/openapi.json": {
    params: {  };
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** ListProcesses lists the runs, commands and cages of the operator's sessions, or of one session, the oldest first. Fails with not_found for the session, and with unavailable while the workspace is unreachable. */
  "GET /api/v1/processes": {
    params: { session_id?: string };
    body: undefined;
    answer: ListProcessesResponse;
  };
  /** ListProjects lists the registered projects by id, a page at a time. */
  "GET /api/v1/projects": {
    params: { limit?: number; cursor?: string };
    body: undefined;
    answer: ListProjectsResponse;
  };
  /** LoadProject registers the project in a folder: 201 if it is new and ready, 200 if parts are missing or it was registered before. Fails with validation_failed for a path that is not absolute, not_found without a project file, dsl_invalid with the place of each error, and conflict if the id belongs to another folder. Fails with conflict (details reason approval_required, project_id, hash, widened, diff) for a file that widens the approved version; a registered project then continues with the approved version. */
  "POST /api/v1/projects/load": {
    params: {  };
    body: { path?: string | null };
    answer: RegisteredProject;
  };
  /** UnregisterProject removes the project from the registry and ends its sessions. It changes no file. The project's log ages out, and can be read after the project is loaded again. Fails with bad_request without confirm and with not_found. */
  "DELETE /api/v1/projects/{id}": {
    params: { id: string; confirm?: boolean };
    body: undefined;
    answer: UnregisterProjectResponse;
  };
  /** GetProject returns one project. Fails with not_found. */
  "GET /api/v1/projects/{id}": {
    params: { id: string };
    body: undefined;
    answer: Project;
  };
  /** UpdateProject changes a project's label. Fails with validation_failed without a label, or for one of more than 80 characters, and with not_found. */
  "PUT /api/v1/projects/{id}": {
    params: { id: string };
    body: { label?: unknown };
    answer: ProjectSummary;
  };
  /** ListProjectAgents lists the agents of the project's approved version with their tools and the reasons for them, their cages in plain words and their limits. Fails with not_found, and with project_not_ready before the first approval. */
  "GET /api/v1/projects/{id}/agents": {
    params: { id: string };
    body: undefined;
    answer: ListProjectAgentsResponse;
  };
  /** GetProjectApproval compares the project's current files with the approved version. Fails with not_found, and with dsl_invalid for files that do not compile. */
  "GET /api/v1/projects/{id}/approval": {
    params: { id: string };
    body: undefined;
    answer: GetProjectApprovalResponse;
  };
  /** ApproveProject approves the files with a hash; they are read again, so that only the shown version can be approved. Repeating it has no effect. Fails with conflict (details reason approval_changed and those of approval_required) if the files have another hash, and like ReloadProject. */
  "POST /api/v1/projects/{id}/approve": {
    params: { id: string };
    body: { hash?: string | null };
    answer: ApproveProjectResponse;
  };
  /** GetProjectCapabilities returns the rights of the project's root agent, before any run: its cage and its tools, as of the last compilation; and the cage of every agent. Fails with not_found. */
  "GET /api/v1/projects/{id}/capabilities": {
    params: { id: string };
    body: undefined;
    answer: GetProjectCapabilitiesResponse;
  };
  /** Returns the bytes of a file of the project. */
  "GET /api/v1/projects/{id}/download/{path}": {
    params: { id: string; path: string };
    body: undefined;
    answer: string;
  };
  /** GetDsl returns the current project file on disk. Fails with not_found for a project that is not registered. */
  "GET /api/v1/projects/{id}/dsl": {
    params: { id: string };
    body: undefined;
    answer: GetDslResponse;
  };
  /** PutDsl replaces the project file by the given text, if it compiles. The new version counts as approved. If valid is false, the file was not saved. Fails with not_found, with validation_failed without a text, with payload_too_large, and with conflict: details reason version_mismatch if If-Match is not the file's, approval_required if other files of the project wait for approval, and existing_id if the text names another project. */
  "PUT /api/v1/projects/{id}/dsl": {
    params: { id: string };
    body: { dsl?: string | null };
    answer: PutDslResponse;
  };
  /** GetSynthesizedDsl returns the project's current files as one document that compiles to the same agents. Fails with not_found for a project that is not registered or has no project file. */
  "GET /api/v1/projects/{id}/dsl/synthesized": {
    params: { id: string };
    body: undefined;
    answer: GetSynthesizedDslResponse;
  };
  /** ListProjectFiles lists a folder of the project, a page at a time. Paths that the operator denies are omitted. Fails with not_found and validation_failed. */
  "GET /api/v1/projects/{id}/files": {
    params: { id: string; path?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListProjectFilesResponse;
  };
  /** GetProjectFile returns a file of the project. Fails with not_found, and with validation_failed for a folder and for a path that leaves the project or that the operator denies. */
  "GET /api/v1/projects/{id}/files/{path}": {
    params: { id: string; path: string };
    body: undefined;
    answer: GetProjectFileResponse;
  };
  /** ListProjectLogs returns entries of a project's log, newest first, a page at a time. Fails with not_found, with invalid_parameter for an unknown level or source, and with validation_failed for other parameters. */
  "GET /api/v1/projects/{id}/logs": {
    params: { id: string; level?: string; source?: string; session?: string; since?: number; until?: number; limit?: number; cursor?: string };
    body: undefined;
    answer: ListProjectLogsResponse;
  };
  /** New entries of a project's log as server-sent events: event log, with an entry as data on one line. Entries are not repeated: connect first, then read GET /api/v1/projects/{id}/logs and skip ids received before. Fails with not_found, and with invalid_parameter for an unknown level or source. The server ends the stream of a reader that has missed entries. */
  "GET /api/v1/projects/{id}/logs/stream": {
    params: { id: string; level?: string; source?: string };
    body: undefined;
    answer: string;
  };
  /** ListPrompts lists the prompt files that the project's agents use. Fails with not_found. */
  "GET /api/v1/projects/{id}/prompts": {
    params: { id: string };
    body: undefined;
    answer: ListPromptsResponse;
  };
  /** GetPrompt returns a prompt with its versions. Fails with not_found for an unknown project, prompt or version. */
  "GET /api/v1/projects/{id}/prompts/{name}": {
    params: { id: string; name: string; version?: number; diff_from?: number };
    body: undefined;
    answer: GetPromptResponse;
  };
  /** PutPrompt writes a prompt and creates a version; the text counts as accepted. Fails with not_found for a prompt that no agent uses, with validation_failed unless exactly one of text and restore is set, with payload_too_large, and with conflict (details reason version_mismatch) if If-Match is not the file's. */
  "PUT /api/v1/projects/{id}/prompts/{name}": {
    params: { id: string; name: string };
    body: { restore?: number | null; text?: string | null };
    answer: PutPromptResponse;
  };
  /** ReloadProject reads the project's files again. Fails like LoadProject; a project file that no longer compiles leaves the project registered and invalid. */
  "POST /api/v1/projects/{id}/reload": {
    params: { id: string };
    body: undefined;
    answer: RegisteredProject;
  };
  /** GetProjectStatus counts a project's sessions and its work of the last 24 hours. Fails with not_found. */
  "GET /api/v1/projects/{id}/status": {
    params: { id: string };
    body: undefined;
    answer: GetProjectStatusResponse;
  };
  /** InitSubagent creates a project file and a prompt in a folder of the project, so that an agent can refer to the folder by path. It does not change existing files, and does not add the agent to the project file. Fails with not_found for the project, and with validation_failed without a path, or for a path that leaves the project or contains a link. */
  "POST /api/v1/projects/{id}/subagents/init": {
    params: { id: string };
    body: { path?: string | null };
    answer: InitSubagentResponse;
  };
  /** GetUnresolved lists the missing parts of a pending project. Fails with not_found. */
  "GET /api/v1/projects/{id}/unresolved": {
    params: { id: string };
    body: undefined;
    answer: Unresolved;
  };
  /** ListIssues lists a project's issues, the highest number first, without their bodies. Without a status it lists those that have not ended. Fails with validation_failed for an unknown status. */
  "GET /api/v1/projects/{project_id}/issues": {
    params: { project_id: string; q?: string; status?: string; limit?: number; cursor?: string; offset?: number; with_total?: boolean };
    body: undefined;
    answer: ListIssuesResponse;
  };
  /** CreateIssue creates an issue: 201, or 200 with the existing issue if one with this client_id and content exists. Fails with validation_failed, and with conflict (details reason client_id_reused) if the client_id was used with other content. */
  "POST /api/v1/projects/{project_id}/issues": {
    params: { project_id: string };
    body: { body?: string | null; client_id?: string | null; imported_from?: string | null; title?: string | null };
    answer: Issue;
  };
  /** GetIssue returns one issue with its last 200 updates. Fails with not_found. */
  "GET /api/v1/projects/{project_id}/issues/{number}": {
    params: { project_id: string; number: number };
    body: undefined;
    answer: IssueDetail;
  };
  /** UpdateIssue changes the given fields and records each change. With If-Match it changes only that version. Fails with bad_request without a known field, validation_failed, not_found, and conflict (details reason version_mismatch with version, or invalid_transition with from, to and legal). */
  "PATCH /api/v1/projects/{project_id}/issues/{number}": {
    params: { project_id: string; number: number };
    body: { assignment?: unknown; body?: string | null; comment?: string | null; status?: "open" | "triaged" | "assigned" | "in_progress" | "resolved" | "rejected" | "reopened" | null; title?: string | null; version?: number | null };
    answer: Issue;
  };
  /** ListIssueTodos lists an issue's todos in their order, the dropped ones too. Fails with not_found. */
  "GET /api/v1/projects/{project_id}/issues/{number}/todos": {
    params: { project_id: string; number: number };
    body: undefined;
    answer: ListIssueTodosResponse;
  };
  /** AddIssueTodos appends todos and returns them: 201. Fails with validation_failed and not_found. */
  "POST /api/v1/projects/{project_id}/issues/{number}/todos": {
    params: { project_id: string; number: number };
    body: { items?: string[]; kind?: "step" | "criterion" | null; phase?: string | null };
    answer: AddIssueTodosResponse;
  };
  /** UpdateIssueTodo changes one todo. Starting a todo sets the one in progress back to pending. Fails with bad_request without a known field, validation_failed and not_found. */
  "PATCH /api/v1/projects/{project_id}/issues/{number}/todos/{id}": {
    params: { project_id: string; number: number; id: string };
    body: { content?: string | null; note?: string | null; status?: "pending" | "in_progress" | "completed" | "abandoned" | null; verified?: boolean | null };
    answer: IssueTodo;
  };
  /** ListIssueUpdates lists the history of an issue, the oldest first. Fails with not_found. */
  "GET /api/v1/projects/{project_id}/issues/{number}/updates": {
    params: { project_id: string; number: number; limit?: number; cursor?: string };
    body: undefined;
    answer: ListIssueUpdatesResponse;
  };
  /** AddIssueUpdate adds a comment: 201. Fails with validation_failed and not_found. */
  "POST /api/v1/projects/{project_id}/issues/{number}/updates": {
    params: { project_id: string; number: number };
    body: { body?: string | null; visibility?: "all" | "operator_only" | null };
    answer: IssueUpdate;
  };
  /** RestartLanguageServers ends the language servers of a project and returns them. They start again with the next query, even after too many crashes. Fails with not_found, and with unavailable. */
  "POST /api/v1/projects/{project_id}/language-servers/restart": {
    params: { project_id: string };
    body: { lang?: string | null };
    answer: RestartLanguageServersResponse;
  };
  /** ListSessions lists a project's sessions, newest first, a page at a time. Fails with not_found. */
  "GET /api/v1/projects/{project_id}/sessions": {
    params: { project_id: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListSessionsResponse;
  };
  /** CreateSession creates a session without starting a run. 201. Fails with not_found for the project or for resume_from, with project_not_ready (details.reason project_not_ready) and with validation_failed. */
  "POST /api/v1/projects/{project_id}/sessions": {
    params: { project_id: string };
    body: { budget?: unknown; issue_number?: number | null; label?: string | null; name?: string | null; resume_from?: string | null };
    answer: CreateSessionResponse;
  };
  /** SearchSessions lists the operator's sessions of all projects, newest first, a page at a time; with q only those with every word of q in their name or in one of their messages. New texts are found after a short delay. Fails with validation_failed, and with not_found for the project. */
  "GET /api/v1/sessions": {
    params: { q?: string; project_id?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: SearchSessionsResponse;
  };
  /** EndSession ends the session, cancels its run and kills its commands. Fails with bad_request without confirm, not_found and gone. */
  "DELETE /api/v1/sessions/{id}": {
    params: { id: string; confirm?: boolean };
    body: undefined;
    answer: Session;
  };
  /** GetSession returns one session, ended ones too. Fails with not_found. */
  "GET /api/v1/sessions/{id}": {
    params: { id: string };
    body: undefined;
    answer: Session;
  };
  /** UpdateSession changes the label and the overrides; absent fields stay. Fails with bad_request without a known field, validation_failed (422 for a number out of range), not_found and gone. */
  "PUT /api/v1/sessions/{id}": {
    params: { id: string };
    body: { budget?: unknown; issue_number?: unknown; label?: unknown; max_output_tokens_override?: unknown; max_steps_override?: unknown; model_override?: unknown };
    answer: Session;
  };
  /** Upgrades to the session's WebSocket, subprotocol kaged.v1. Frames are {channel, seq, type, payload}; docs/reference/frames.md lists them. Needs the CSRF token in X-Kaged-CSRF, in csrf, or in a subprotocol kaged.csrf.TOKEN, unless the request has an API token of scope run. */
  "GET /api/v1/sessions/{id}/socket": {
    params: { id: string; csrf?: string; takeover?: string };
    body: undefined;
    answer: string;
  };
  /** The frames of a session as server-sent events, for any number of readers, which do not hold the session. Each event has the frame as data, its type, and the positions in all channels as id. Last-Event-ID resumes; without it the stream begins with new frames. The last event is closing {code, reason}: session_ended, resume_failed, signed_out or server_shutdown. */
  "GET /api/v1/sessions/{id}/stream": {
    params: { id: string; channels?: string };
    body: undefined;
    answer: string;
  };
  /** ListApprovals lists a session's requests for approval, newest first, a page at a time. Fails with not_found and with validation_failed for an unknown state. */
  "GET /api/v1/sessions/{session_id}/approvals": {
    params: { session_id: string; state?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListApprovalsResponse;
  };
  /** GetApproval returns one request for approval. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/approvals/{approval_id}": {
    params: { session_id: string; approval_id: string };
    body: undefined;
    answer: Approval;
  };
  /** AnswerApproval approves or denies the call; the answer is stored when it returns. With the scope session or project it creates a standing approval, one of the request's offers, which allows later calls without a question. Blocked commands stay blocked. Fails with validation_failed, not_found, gone for an ended session, and conflict (details.current_state) if it was answered, has expired or was closed with its run, (details.reason stale_hash) if the hash is not that of the subject, and (details.reason standing_limit) for more than 200 standing approvals in force in a project. */
  "POST /api/v1/sessions/{session_id}/approvals/{approval_id}": {
    params: { session_id: string; approval_id: string };
    body: { comment?: string | null; decision?: string | null; hash?: string | null; kind?: string | null; scope?: string | null; words?: number | null };
    answer: Approval;
  };
  /** ListSessionChanges lists the files of the project that differ from their content before the session's first change, and other files that changed since the session began and differ from HEAD. Fails with not_found, and with unavailable while the workspace is unreachable. */
  "GET /api/v1/sessions/{session_id}/changes": {
    params: { session_id: string; path?: string };
    body: undefined;
    answer: ListSessionChangesResponse;
  };
  /** CompactSession compacts the conversation of an idle session; 202 once it has begun; compaction.* frames report its stages. A dry run answers at once with the plan; it calls no model and stores nothing. Fails with validation_failed for an unknown strategy, not_found for the session or the agent, gone, conflict while a run (details.reason run_active) or another compaction (compaction_active) is in progress, project_not_ready and unavailable. */
  "POST /api/v1/sessions/{session_id}/compact": {
    params: { session_id: string };
    body: { agent_path?: string | null; dry_run?: boolean | null; strategy?: string | null };
    answer: CompactSessionResponse;
  };
  /** ListCompactions lists the completed compactions of the session, newest first, a page at a time. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/compactions": {
    params: { session_id: string; agent_path?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListCompactionsResponse;
  };
  /** ProposeCompaction is CompactSession with dry_run. */
  "POST /api/v1/sessions/{session_id}/compactions/dry-run": {
    params: { session_id: string };
    body: { agent_path?: string | null; strategy?: string | null };
    answer: CompactSessionResponse;
  };
  /** GetCompaction returns one compaction with the superseded messages. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/compactions/{compaction_id}": {
    params: { session_id: string; compaction_id: string };
    body: undefined;
    answer: SessionCompaction;
  };
  /** UpdateCompaction stores the operator's rating of a compaction. Fails with bad_request without a known field, with validation_failed, not_found and gone. */
  "PATCH /api/v1/sessions/{session_id}/compactions/{compaction_id}": {
    params: { session_id: string; compaction_id: string };
    body: { flag?: unknown; notes?: unknown };
    answer: SessionCompaction;
  };
  /** UndoCompaction restores the parts that the last compaction of an agent superseded. Fails with not_found, gone, and conflict (details.reason run_active, already_undone or overlapped). */
  "POST /api/v1/sessions/{session_id}/compactions/{compaction_id}/undo": {
    params: { session_id: string; compaction_id: string };
    body: undefined;
    answer: SessionCompaction;
  };
  /** GetContextEstimate estimates the use of the context window of an agent's model, from the stored conversation. Fails with not_found for the session or the agent, with project_not_ready, and with unavailable while the harness is unreachable. */
  "GET /api/v1/sessions/{session_id}/context-estimate": {
    params: { session_id: string; agent_path?: string };
    body: undefined;
    answer: GetContextEstimateResponse;
  };
  /** GetDebug returns the debug sessions of the session's agents: state, source, stack, variables, breakpoints, and output from an offset. It has no side effects. Fails with not_found for the session or the debug session, with validation_failed, and with unavailable while the workspace is unreachable. */
  "GET /api/v1/sessions/{session_id}/debug": {
    params: { session_id: string; debug_session_id?: string; frame_id?: number; output_from?: number };
    body: undefined;
    answer: GetDebugResponse;
  };
  /** ControlDebug controls a program that an agent debugs; the agent's next result names the operator. Fails with validation_failed, not_found, gone for an ended session, dap_session_ended without a debug session, conflict (details.reason debuggee_running) for an action that needs a stopped program, dap_request_failed, and unavailable while the workspace is unreachable. */
  "POST /api/v1/sessions/{session_id}/debug": {
    params: { session_id: string };
    body: { action?: string | null; debug_session_id?: string | null; expression?: string | null; frame_id?: number | null; thread_id?: number | null; timeout?: number | null };
    answer: ControlDebugResponse;
  };
  /** ListInvocations lists the calls of agents by other agents in a session, oldest first, a page at a time. Fails with not_found for the session or the run. */
  "GET /api/v1/sessions/{session_id}/invocations": {
    params: { session_id: string; run_id?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListInvocationsResponse;
  };
  /** GetInvocation returns one invocation in full. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/invocations/{invocation_id}": {
    params: { session_id: string; invocation_id: string };
    body: undefined;
    answer: Invocation;
  };
  /** CancelInvocation stops one agent below the root and the agents that it called, and returns after their end; its caller reads a cancelled result and continues. Fails with not_found, and with conflict (details.current_state) if it has already ended. */
  "POST /api/v1/sessions/{session_id}/invocations/{invocation_id}/cancel": {
    params: { session_id: string; invocation_id: string };
    body: undefined;
    answer: Invocation;
  };
  /** GetLedger lists the reads, changes, commands, denials and notes of the session's agents, oldest first, a page at a time. Fails with not_found and with validation_failed for an unknown kind. */
  "GET /api/v1/sessions/{session_id}/ledger": {
    params: { session_id: string; agent_path?: string; kind?: string; limit?: number; cursor?: string };
    body: undefined;
    answer: GetLedgerResponse;
  };
  /** ListMessages lists the messages a page at a time, oldest first or, with newest_first, newest first. Fails with not_found, and with validation_failed for an unknown since and for a cursor of the other order. */
  "GET /api/v1/sessions/{session_id}/messages": {
    params: { session_id: string; limit?: number; cursor?: string; since?: string; newest_first?: boolean };
    body: undefined;
    answer: ListMessagesResponse;
  };
  /** PostMessage stores the operator's message and starts a run; 202 once both are stored. The first message also names a session without a name. If the project or the operator is at its limit of running sessions (`[limits]` of local.toml), the run is pending, the session is queued, and the answer has queued, reason, running_count and limit; ResumeSession starts the run. Fails with validation_failed, not_found, gone for an ended session, conflict for a running one (details.current_message) or a queued or paused one (details.current_state), and project_not_ready. With steer a running session accepts the message too (steered): its root agent reads it at the next step boundary. If the run completes before, the message starts the next run; if it ends otherwise, the model reads it with the next message. At most 16 such messages and 1 MiB together wait (conflict, details.reason steer_limit); they have no overrides. */
  "POST /api/v1/sessions/{session_id}/messages": {
    params: { session_id: string };
    body: { content?: string | null; max_output_tokens_override?: number | null; max_steps_override?: number | null; model_override?: string | null; steer?: boolean | null };
    answer: PostMessageResponse;
  };
  /** UpdateMessage sets whether compactions may supersede a message. Fails with bad_request without a known field, not_found and gone. */
  "PATCH /api/v1/sessions/{session_id}/messages/{message_id}": {
    params: { session_id: string; message_id: string };
    body: { always_keep?: boolean | null };
    answer: SessionMessage;
  };
  /** ListProcesses lists the runs, commands and cages of the operator's sessions, or of one session, the oldest first. Fails with not_found for the session, and with unavailable while the workspace is unreachable. */
  "GET /api/v1/sessions/{session_id}/processes": {
    params: { session_id: string };
    body: undefined;
    answer: ListProcessesResponse;
  };
  /** SignalProcess sends a signal to the process group of a command that runs for the session; the agent's tool result reports its end. Fails with validation_failed for an unknown signal, not_found, gone for an ended session, process_not_found for a command of another session or an unknown one, process_ended, and unavailable while the workspace is unreachable. */
  "POST /api/v1/sessions/{session_id}/processes/{process_id}/signal": {
    params: { session_id: string; process_id: string };
    body: { signal?: string | null };
    answer: SignalProcessResponse;
  };
  /** ListSessionPrompts lists the system prompts of the root agent and of the running agents below it: those of the current run, or between runs those of the next one. Fails with not_found and with project_not_ready between runs if a prompt is missing. */
  "GET /api/v1/sessions/{session_id}/prompts": {
    params: { session_id: string };
    body: undefined;
    answer: ListSessionPromptsResponse;
  };
  /** DiscardQueued withdraws the message of a queued session, which stays in the history as superseded, and cancels its run. Fails with not_found, gone, and conflict for a session that is not queued (details.current_state). */
  "DELETE /api/v1/sessions/{session_id}/queued-message": {
    params: { session_id: string };
    body: undefined;
    answer: DiscardQueuedResponse;
  };
  /** ResumeSession starts the run of a queued session if a slot is free. Fails with not_found, gone, conflict for a session that is not queued (details.current_state) and while no slot is free (details reason, running_count, limit), and project_not_ready. */
  "POST /api/v1/sessions/{session_id}/resume": {
    params: { session_id: string };
    body: undefined;
    answer: ResumeSessionResponse;
  };
  /** ListRuns lists the runs in order, a page at a time. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/runs": {
    params: { session_id: string; limit?: number; cursor?: string };
    body: undefined;
    answer: ListRunsResponse;
  };
  /** GetRun returns one run in full. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/runs/{run_id}": {
    params: { session_id: string; run_id: string };
    body: undefined;
    answer: Run;
  };
  /** CancelRun stops a run and returns after its end. Fails with not_found and with conflict if it has already ended. */
  "POST /api/v1/sessions/{session_id}/runs/{run_id}/cancel": {
    params: { session_id: string; run_id: string };
    body: undefined;
    answer: Run;
  };
  /** GetToolResult returns one tool result with the input of its call, even if answers and frames shorten them. A stored result is found while its run continues. If two calls of a run have the same id, the later one is returned. Fails with not_found. */
  "GET /api/v1/sessions/{session_id}/runs/{run_id}/tool-results/{tool_call_id}": {
    params: { session_id: string; run_id: string; tool_call_id: string };
    body: undefined;
    answer: MessagePart;
  };
  /** The system socket, subprotocol kaged.v1: changes that concern the operator, on the channel system. system.hello comes first. The types are issue.created, issue.updated, system.hello, sessions.running_count, session.changed, project.changed, approval.requested, approval.resolved, system.missed. */
  "GET /api/v1/socket": {
    params: { csrf?: string };
    body: undefined;
    answer: string;
  };
  /** GetSpend sums the usage of the operator's model calls since a time, by project and model, without calls in progress. Fails with validation_failed for a time that is not in the past. */
  "GET /api/v1/spend": {
    params: { since?: number };
    body: undefined;
    answer: GetSpendResponse;
  };
  /** ListStandingApprovals lists the operator's standing approvals, newest first, a page at a time. */
  "GET /api/v1/standing-approvals": {
    params: { project_id?: string; session_id?: string; revoked?: boolean; limit?: number; cursor?: string };
    body: undefined;
    answer: ListStandingApprovalsResponse;
  };
  /** RevokeStandingApproval revokes a standing approval: the next call that it covered needs an answer again. Revoking it twice has no effect. Fails with not_found. */
  "DELETE /api/v1/standing-approvals/{id}": {
    params: { id: string };
    body: undefined;
    answer: StandingApproval;
  };
  /** ListTokens lists the tokens that have not been revoked, the oldest first. */
  "GET /api/v1/tokens": {
    params: {  };
    body: undefined;
    answer: ListTokensResponse;
  };
  /** CreateToken creates a token. 201. Fails with validation_failed, and with conflict (details.reason name_taken, too_many_tokens, or insecure_mode, in which tokens are ignored). */
  "POST /api/v1/tokens": {
    params: {  };
    body: { expires_at?: number | null; name?: string | null; scope?: "read" | "run" | "admin" | null };
    answer: CreateTokenResponse;
  };
  /** RevokeToken revokes a token: later requests with it are refused. Fails with not_found. */
  "DELETE /api/v1/tokens/{id}": {
    params: { id: string };
    body: undefined;
    answer: Token;
  };
  /** Lists the versions of the API. */
  "GET /api/versions": {
    params: {  };
    body: undefined;
    answer: Versions;
  };
  /** The console's page of the audit log. */
  "GET /audit": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** Returns this description as a page. */
  "GET /docs/api": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** A file of the page at /docs/api. */
  "GET /docs/api/{file}": {
    params: { file: string };
    body: undefined;
    answer: string;
  };
  /** Reports that the process is alive. */
  "GET /healthz": {
    params: {  };
    body: undefined;
    answer: Probe;
  };
  /** The same as /api/v1/launch. */
  "GET /launch": {
    params: { token?: string };
    body: undefined;
    answer: Launched;
  };
  /** The console's page of processes. */
  "GET /processes": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** The console's page of projects. */
  "GET /projects": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** The console's page of a project. */
  "GET /projects/{id}": {
    params: { id: string };
    body: undefined;
    answer: string;
  };
  /** Reports whether requests can be served. */
  "GET /readyz": {
    params: {  };
    body: undefined;
    answer: Probe;
  };
  /** The console's page of a session. */
  "GET /sessions/{id}": {
    params: { id: string };
    body: undefined;
    answer: string;
  };
  /** The console's page of settings. */
  "GET /settings": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** The style sheet of pages without scripts. */
  "GET /static/page.css": {
    params: {  };
    body: undefined;
    answer: string;
  };
  /** A file of the console, with an entity tag, in gzip if the client accepts it. */
  "GET /static/{file}": {
    params: { file: string };
    body: undefined;
    answer: string;
  };
}

/** Frames maps the types of frames to their payloads. */
export interface Frames {
  "message.start": MessageStart;
  "message.delta": MessageDelta;
  "message.tool_call": MessageToolCall;
  "message.tool_output": MessageToolOutput;
  "message.tool_result": MessageToolResult;
  "message.end": MessageEnd;
  "message.retract": MessageRetract;
  "message.steer": MessageSteer;
  "subagent.start": SubagentStart;
  "subagent.output": SubagentOutput;
  "subagent.tool_call": SubagentToolCall;
  "subagent.tool_result": SubagentToolResult;
  "subagent.retract": SubagentRetract;
  "subagent.end": SubagentEnd;
  "run.started": RunStarted;
  "run.retry": RunRetry;
  "run.ended": RunEnded;
  "budget.state": BudgetState;
  "compaction.triggered": CompactionTriggered;
  "compaction.completed": CompactionCompleted;
  "compaction.failed": CompactionFailed;
  "compaction.noop": CompactionNoop;
  "compaction.flagged": CompactionFlagged;
  "compaction.undone": CompactionUndone;
  "run.cage": RunCage;
  "prompt.held": PromptHeld;
  "net.attempt": NetworkAttempted;
  "debug.session": FrameDebugSession;
  "debug.stopped": DebugStopped;
  "debug.output": FrameDebugOutput;
  "debug.ended": DebugEnded;
  "session.state": SessionStateChanged;
  "approval.requested": ApprovalRequested;
  "approval.resolved": ApprovalResolved;
  "issue.created": IssueCreated;
  "issue.updated": IssueUpdated;
  "audit.warning": AuditWarning;
}

/** SystemFrames maps the types of frames of the system socket to their payloads. */
export interface SystemFrames {
  "issue.created": IssueCreated;
  "issue.updated": IssueUpdated;
  "system.hello": SystemHello;
  "sessions.running_count": RunningCount;
  "session.changed": SessionChanged;
  "project.changed": ProjectChanged;
  "approval.requested": ApprovalWaiting;
  "approval.resolved": ApprovalOver;
  "system.missed": SystemMissed;
}
