import type { Frame, SubagentInvocation, MessagePart, MessageSteer, RunStep, SessionMessage } from "@kaged/client";
import { append, begin, blocksOf, change, covers, keepKeys, retract, settle, shown, tail } from "./blocks";

export interface ToolCall {
  id: string;
  name: string;
  input: unknown;
  output: string | null;
  /** Whether input or output was shortened; a request returns it whole. */
  cut: boolean;
  isError: boolean;
  ms: number | null;
  /** The last part of the tool's output so far. */
  live: string;
  runId: string;
}

export type Block =
  | { kind: "text" | "thinking"; key: string; text: string; step?: number }
  | { kind: "tool"; key: string; call: ToolCall; step?: number }
  | { kind: "said"; key: string; turn: Turn }
  | Notice;

export interface Notice { kind: "notice"; key: string; tone: "info" | "warn" | "bad"; text: string }

/** Steer is an operator's message for a run in progress, until its agent has read it. */
export interface Steer { id: string; text: string; at: number }

/** Log has the texts and tool calls of one agent in a run or invocation. */
export interface Log {
  key: string;
  runId: string;
  blocks: Block[];
  /** The blocks that were shown before, while frames repeat them. */
  seen: Block[];
  live: boolean;
  model: string;
  rehearsal: boolean;
  at: number | null;
  endedAt: number | null;
  error: string;
  /** The model's stop reason; aborted is a stop by an operator. */
  stop: string;
  tokens: number | null;
  cost: number | null;
  /** Whether it comes from stored data, which old frames do not change. */
  stored: boolean;
}

/** Change is the effect of a frame: none, more text in a block that is drawn already, or other rows. */
export type Change = "none" | "text" | "rows";

export interface Turn {
  key: string;
  runId: string | null;
  /** Its number in the session, from 1. A message of the system has the number of the turn before it. */
  n: number;
  /** Whether the operator wrote it. */
  own: boolean;
  text: string;
  at: number;
  superseded: boolean;
  alwaysKeep: boolean;
  /** The step whose results it follows; 0 for a message that started a run. */
  afterStep: number;
}

/** Entry is an item of the stored conversation: a turn, or the key of the log that answers it. */
export type Entry = { turn: Turn } | { log: string };

export interface Agent extends Partial<Omit<SubagentInvocation, "invocation_id">> {
  invocation_id: string;
  parent_invocation_id: string | null;
  name: string;
  agent_path: string;
  state: string;
  action: string;
}

export interface Attempt { at: number; agent_path: string; target: string; allowed: boolean; rule: string; count: number }

/** Transcript has the whole conversation of a session's page. It merges frames and stored rows, which may arrive in any order. */
export class Transcript {
  /** The stored conversation in its order, from the oldest message that was read. */
  entries: Entry[] = [];
  /** The number of turns before the first entry, and of all turns. */
  before = 0;
  turns = 0;
  /** The newest stored answer. Frames of earlier answers are ignored. */
  floor = "";
  /** By message id. */
  readonly logs = new Map<string, Log>();
  /** The logs of child agents, by invocation. */
  readonly children = new Map<string, Log>();
  readonly agents = new Map<string, Agent>();
  /** The prompts of child agents, by invocation. */
  readonly asked = new Map<string, string>();
  readonly network: Attempt[] = [];
  /** Events of a run that are not part of a message. */
  readonly notices = new Map<string, Notice[]>();
  /** Unread messages for the run in progress, in order. */
  readonly steers = new Map<string, Steer>();
  /** Messages that steered a run, by its id, and those already placed in its answer. */
  private readonly steered = new Map<string, Turn[]>();
  readonly within = new Set<Turn>();
  private readonly places = new Map<string, Turn | null>();
  private sequence = 0;
  /** Counts the changes of anything but the last text. */
  revision = 0;

  /** newer adds newer or changed messages, in order. */
  newer(messages: SessionMessage[]): void {
    this.revision++;
    for (const message of messages) {
      const entry = this.take(message);
      if (!entry) continue;
      if ("turn" in entry) entry.turn.n = entry.turn.own ? ++this.turns : this.turns;
      this.entries.push(entry);
    }
  }

  /** older adds a page of messages, newest first, with the number of turns before it. It may be the first page. */
  older(messages: SessionMessage[], before: number): void {
    this.revision++;
    const page: Entry[] = [];
    let n = before;
    for (let i = messages.length - 1; i >= 0; i--) {
      const entry = this.take(messages[i]!);
      if (!entry) continue;
      if ("turn" in entry) entry.turn.n = entry.turn.own ? ++n : n;
      page.push(entry);
    }
    if (this.entries.length === 0) this.turns = n;
    this.entries = [...page, ...this.entries];
    this.before = before;
  }

  /** lastText returns the text of the operator's last message. */
  lastText(): string {
    for (let i = this.entries.length - 1; i >= 0; i--) {
      const entry = this.entries[i]!;
      if ("turn" in entry && entry.turn.own) return entry.turn.text;
    }
    return "";
  }

  /** forget removes the stored conversation, to be read again. */
  forget(): void {
    this.revision++;
    for (const entry of this.entries) if ("log" in entry) this.logs.delete(entry.log);
    this.entries = [];
    this.places.clear();
    this.steered.clear();
    this.within.clear();
    this.before = this.turns = 0;
  }

  /** take stores a message and returns its entry, unless it has an entry. */
  private take(message: SessionMessage): Entry | null {
    if (message.role === "subagent") return null;
    const known = this.places.get(message.id);
    if (message.role === "operator" || message.role === "system") {
      if (known) {
        known.superseded = message.superseded;
        known.alwaysKeep = message.always_keep ?? false;
        return null;
      }
      const afterStep = message.after_step ?? 0;
      const turn = this.steering(message.id) ?? {
        key: message.id, runId: message.run_id, n: 0, own: message.role === "operator", text: "", at: 0, superseded: false, alwaysKeep: false, afterStep,
      };
      Object.assign(turn, { text: message.content, at: message.created_at, superseded: message.superseded, alwaysKeep: message.always_keep ?? false });
      this.places.set(message.id, turn);
      this.steers.delete(message.id);
      if (afterStep > 0) this.placeSteer(turn);
      return { turn };
    }
    this.answer(message);
    if (known === null) return null;
    this.places.set(message.id, null);
    return { log: message.id };
  }

  /** steer stores the state of a message for a run in progress. */
  steer(p: MessageSteer): boolean {
    this.revision++;
    const stored = this.places.has(p.message_id);
    if (p.state === "queued") {
      if (!stored && !this.steering(p.message_id)) this.steers.set(p.message_id, { id: p.message_id, text: p.content, at: p.at });
      return !stored;
    }
    const waited = this.steers.delete(p.message_id);
    if (p.state !== "delivered") return waited;
    // What comes next of the answer is said after it. An answer that is told anew is told with it.
    const run = p.run_id ?? "";
    const known = this.places.get(p.message_id) ?? this.steering(p.message_id);
    let placed = false;
    for (const log of this.logs.values()) {
      if (log.runId !== run || log.stored || log.blocks.some((one) => one.kind === "said" && one.turn.key === p.message_id)) continue;
      const turn: Turn = known ?? {
        key: p.message_id, runId: run, n: 0, own: true, text: p.content, at: p.at, superseded: false, alwaysKeep: false, afterStep: p.after_step ?? 0,
      };
      if (!known) this.steered.set(run, [...(this.steered.get(run) ?? []), turn]);
      this.within.add(turn);
      log.blocks.push({ kind: "said", key: turn.key, turn });
      placed = true;
    }
    return waited || placed;
  }

  private steering(id: string): Turn | undefined {
    for (const list of this.steered.values()) for (const turn of list) if (turn.key === id) return turn;
    return undefined;
  }

  /** placeSteer inserts a message that steered a run into its answer, if the answer is loaded. */
  private placeSteer(turn: Turn): void {
    const run = turn.runId ?? "";
    const list = this.steered.get(run) ?? [];
    if (!list.includes(turn)) this.steered.set(run, [...list, turn].sort((a, b) => a.afterStep - b.afterStep || (a.key < b.key ? -1 : 1)));
    for (const [key, log] of this.logs) {
      if (log.runId === run) this.logs.set(key, { ...log, blocks: this.withSteers(log.blocks, run) });
    }
  }

  /** withSteers returns the blocks of a run with each steering message after the results of its step. */
  private withSteers(blocks: Block[], run: string): Block[] {
    const list = this.steered.get(run);
    if (!list) return blocks;
    const placed: Block[] = [];
    const here = new Set(blocks.flatMap((block) => (block.kind === "said" ? [block.turn] : [])));
    const left = list.filter((turn) => !here.has(turn));
    const put = (before: number) => {
      while (left.length > 0 && left[0]!.afterStep < before) {
        const turn = left.shift()!;
        this.within.add(turn);
        placed.push({ kind: "said", key: turn.key, turn });
      }
    };
    for (const block of blocks) {
      if ("step" in block && block.step) put(block.step);
      placed.push(block);
    }
    put(Infinity);
    return placed;
  }

  private answer(message: SessionMessage): void {
    const meta = message.metadata;
    const parts = message.parts?.length ? message.parts : [{ type: "text", text: message.content } as MessagePart];
    const before = this.logs.get(message.id);
    this.logs.set(message.id, {
      key: message.id, runId: message.run_id ?? "", seen: [], live: false, stored: true, rehearsal: meta?.provider === "rehearsal",
      model: meta?.model ? `${meta.provider}:${meta.model}` : "", at: message.created_at, endedAt: message.created_at,
      error: meta?.error_message ?? "", stop: meta?.stop_reason ?? "", tokens: meta?.usage ? meta.usage.input + meta.usage.cache_read + meta.usage.cache_write + meta.usage.output : null,
      cost: costOf(meta?.stats?.cost), blocks: this.withSteers(keepKeys(blocksOf(parts, message.id, message.run_id ?? ""), before ? shown(before) : [], Boolean(meta?.error_message)), message.run_id ?? ""),
    });
  }

  /** steps adds the stored steps of a run or invocation, if no frames of it were received. */
  steps(into: Map<string, Log>, key: string, runId: string, steps: RunStep[], live: boolean): void {
    this.revision++;
    const before = into.get(key);
    if (before && before.blocks.length > 0 && (before.stored || before.live) && live) return;
    const told = steps.flatMap((step) => blocksOf(step.parts, `${key}/${step.step}`, runId, step.step));
    // A step in progress is not stored, so its received blocks stay.
    if (before && before.blocks.length + before.seen.length > 0 && covers(shown(before), told)) return;
    const log = fresh(key, runId);
    log.live = live;
    for (const step of steps) {
      log.at ??= step.created_at;
      log.model = `${step.provider}:${step.model}`;
    }
    log.blocks = keepKeys(told, before ? shown(before) : []);
    if (into === this.logs) log.blocks = this.withSteers(log.blocks, runId);
    into.set(key, log);
  }

  /** invocation adds a row of the list of child agents. */
  invocation(row: SubagentInvocation): void {
    const before = this.agents.get(row.invocation_id);
    this.agents.set(row.invocation_id, { ...before, ...row, action: before?.action ?? "" } as Agent);
  }

  /** apply applies a frame and returns what it has changed. */
  apply(frame: Frame): Change {
    const p = frame.payload as never;
    const handler = (handlers as Record<string, (t: Transcript, payload: never) => Handled>)[frame.type];
    const handled = handler ? handler(this, p) : false;
    const { message_id, invocation_id } = frame.payload as { message_id?: string; invocation_id?: string };
    const log = this.logs.get(message_id ?? "") ?? this.children.get(invocation_id ?? "");
    // Blocks that repeat an answer are not drawn until they replace the shown ones.
    const repeats = (log?.seen.length ?? 0) > 0;
    if (log) settle(log, frame.type === "message.end" || frame.type === "subagent.end");
    const change = handled === false ? "none" : typeof handled === "string" && !repeats ? handled : "rows";
    if (change !== "text") this.revision++;
    return change;
  }

  /** open returns the log of a message in progress, or null for a stored message. */
  open(id: string): Log | null {
    const log = this.logs.get(id);
    if (log?.stored) return null;
    if (log) return log;
    if (id <= this.floor) return null;
    const made = fresh(id, "");
    this.logs.set(id, made);
    return made;
  }

  child(id: string): Log {
    let log = this.children.get(id);
    if (!log) this.children.set(id, (log = fresh(id, this.agents.get(id)?.run_id ?? "")));
    return log;
  }

  nextKey(prefix: string): string {
    return `${prefix}#${++this.sequence}`;
  }

  notice(runId: string, invocation: string | undefined, tone: "info" | "warn" | "bad", text: string): void {
    const block: Notice = { kind: "notice", key: this.nextKey(runId), tone, text };
    if (invocation) {
      this.child(invocation).blocks.push(block);
      return;
    }
    for (const log of this.logs.values()) {
      if (log.runId === runId && !log.stored) {
        log.blocks.push(block);
        return;
      }
    }
    this.notices.set(runId, [...(this.notices.get(runId) ?? []), block]);
  }
}

function fresh(key: string, runId: string): Log {
  return { key, runId, blocks: [], seen: [], live: true, model: "", rehearsal: false, at: null, endedAt: null, error: "", stop: "", tokens: null, cost: null, stored: false };
}

function costOf(cost: unknown): number | null {
  if (!cost || typeof cost !== "object") return null;
  const total = (cost as Record<string, unknown>)["total"];
  return typeof total === "number" ? total : null;
}

/** Handled is the answer of a handler: what has changed, false for nothing; true and no answer are rows. */
type Handled = Change | boolean | void;
type Handlers = { [T in Frame["type"]]?: (t: Transcript, p: Extract<Frame, { type: T }>["payload"]) => Handled };

const handlers: Handlers = {
  "message.start": (t, p) => {
    const log = t.open(p.message_id);
    if (!log) return false;
    begin(log);
    Object.assign(log, { live: true, runId: p.run_id, model: `${p.provider}:${p.model}`, rehearsal: p.rehearsal ?? false, at: p.started_at });
  },
  "message.delta": (t, p) => {
    const log = t.open(p.message_id);
    if (!log) return false;
    return append(log, p.kind === "thinking" ? "thinking" : "text", p.delta, () => t.nextKey(p.message_id));
  },
  "message.tool_call": (t, p) => {
    const log = t.open(p.message_id);
    if (!log) return false;
    if (change(log, p.id, () => ({ input: p.input }))) return;
    log.blocks.push({
      kind: "tool", key: t.nextKey(p.message_id),
      call: { id: p.id, name: p.name, input: p.input, output: null, cut: p.truncated ?? false, isError: false, ms: null, live: "", runId: log.runId },
    });
  },
  "message.tool_output": (t, p) => {
    const log = t.open(p.message_id);
    return log ? change(log, p.tool_call_id, (call) => ({ live: tail(call.live + p.text) })) : false;
  },
  "message.tool_result": (t, p) => {
    const log = t.open(p.message_id);
    return log ? change(log, p.tool_call_id, (call) => ({ input: p.input ?? call.input, output: p.output, isError: p.is_error, ms: p.duration_ms, cut: p.truncated ?? false, live: "" })) : false;
  },
  "message.retract": (t, p) => {
    const log = t.open(p.message_id);
    if (!log) return false;
    retract(log, t.nextKey(p.message_id), p.reason);
  },
  "message.end": (t, p) => {
    const log = t.open(p.message_id);
    if (!log) return false;
    Object.assign(log, {
      live: false, endedAt: p.ended_at, error: p.error_message ?? "", stop: p.stop_reason, cost: costOf(p.stats?.cost),
      tokens: p.usage ? p.usage.input + p.usage.cache_read + p.usage.cache_write + p.usage.output : null,
    });
  },
  "message.steer": (t, p) => t.steer(p),
  "subagent.start": (t, p) => {
    const before = t.agents.get(p.invocation_id);
    if (before && !["pending", "running"].includes(before.state)) return false;
    t.agents.set(p.invocation_id, { ...before, ...p, state: "running", action: "" });
    const log = t.children.get(p.invocation_id);
    if (log) begin(log);
    t.children.set(p.invocation_id, { ...fresh(p.invocation_id, p.run_id), seen: log?.seen ?? [] });
  },
  "subagent.output": (t, p) => {
    const log = t.child(p.invocation_id);
    if (log.stored) return false;
    if (p.kind === "tool") return change(log, p.tool_call_id ?? "", (call) => ({ live: tail(call.live + p.text) }));
    return append(log, p.kind === "thinking" ? "thinking" : "text", p.text, () => t.nextKey(p.invocation_id));
  },
  "subagent.tool_call": (t, p) => {
    const log = t.child(p.invocation_id);
    if (log.stored) return false;
    log.blocks.push({
      kind: "tool", key: t.nextKey(p.invocation_id),
      call: { id: p.id, name: p.name, input: p.input, output: null, cut: p.truncated ?? false, isError: false, ms: null, live: "", runId: log.runId },
    });
    act(t, p.invocation_id, p.name);
  },
  "subagent.tool_result": (t, p) => {
    change(t.child(p.invocation_id), p.tool_call_id, () => ({ output: p.output, isError: p.is_error, ms: p.duration_ms, cut: p.truncated ?? false, live: "" }));
    act(t, p.invocation_id, "");
  },
  "subagent.retract": (t, p) => retract(t.child(p.invocation_id), t.nextKey(p.invocation_id), p.reason),
  "subagent.end": (t, p) => {
    const agent = t.agents.get(p.invocation_id);
    if (agent) {
      t.agents.set(p.invocation_id, {
        ...agent, state: p.outcome, exit: p.exit, steps: p.steps, cost_usd: p.cost_usd, ended_at: p.ended_at, action: "",
        error: (p.error ?? null) as never, ...(p.usage ? { tokens_in: p.usage.input + p.usage.cache_read + p.usage.cache_write, tokens_out: p.usage.output } : {}),
      });
    }
    t.child(p.invocation_id).live = false;
  },
  "run.retry": (t, p) =>
    t.notice(p.run_id, p.invocation_id, "warn", `${p.error?.message ?? "The model call failed."} Try ${p.attempt + 1} goes to ${p.provider}:${p.model}.`),
  "run.ended": (t, p) => {
    for (const log of t.logs.values()) if (log.runId === p.run_id && !log.stored) {
      settle(log, true);
      Object.assign(log, { live: false, cost: p.cost_usd, tokens: p.tokens_in + p.tokens_out, ...(p.outcome === "cancelled" ? { stop: "aborted" } : {}) });
    }
    if (p.error && ![...t.logs.values()].some((log) => log.runId === p.run_id && log.error)) t.notice(p.run_id, undefined, "bad", p.error.message);
  },
  "run.cage": (t, p) => {
    if (p.ended && p.ended !== "owner_ended") t.notice(p.run_id, p.invocation_id, "bad", `The cage of ${p.agent_path} has ended: ${p.ended}.`);
    const agent = p.invocation_id ? t.agents.get(p.invocation_id) : undefined;
    if (agent) t.agents.set(agent.invocation_id, { ...agent, cage_status: p.cage_status });
    for (const found of p.found ?? []) t.notice(p.run_id, p.invocation_id, "warn", `Made in a writable folder, and may run outside the cage: ${JSON.stringify(found)}`);
  },
  "prompt.held": (t, p) => t.notice(p.run_id, undefined, "warn", heldText(p)),
  "net.attempt": (t, p) => {
    t.network.push({ ...p });
    if (t.network.length > 500) t.network.shift();
  },
  "compaction.completed": (t, p) => t.notice(p.run_id, p.invocation_id, "info", `The conversation was shortened: ${p.superseded_count} messages made way, about ${p.after_estimate} tokens stay.`),
  "compaction.failed": (t, p) => t.notice(p.run_id, p.invocation_id, "warn", `Shortening by ${p.attempted_strategy} failed: ${p.reason} Now ${p.fallback_strategy} is used.`),
  "compaction.noop": (t, p) => t.notice(p.run_id, p.invocation_id, "warn", `The conversation could not be shortened: ${p.reason}`),
};

function heldText(p: { path: string; accepted_sha256: string; sha256: string }): string {
  if (!p.accepted_sha256) return `${p.path} is not approved yet; the run goes on without it.`;
  return `${p.path} ${p.sha256 ? "has changed" : "is gone"}; the run goes on with the accepted text until you approve the change.`;
}

function act(t: Transcript, invocation: string, action: string): void {
  const agent = t.agents.get(invocation);
  if (agent) t.agents.set(invocation, { ...agent, action });
}
