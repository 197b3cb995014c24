import type { Answer, Approval, Frame, Session, SessionMessage, SessionSocket, SessionStream, SocketState } from "@kaged/client";
import { kaged, KagedError } from "./api";
import { interactive } from "./marks";
import { Transcript, type Log } from "./transcript";

/** The number of messages of the first page, of an older page that is read while the reader scrolls, and of a page of all. */
const firstPage = 60;
const olderPage = 60;
const fullPage = 200;
/** If more new pages than this are missing, the conversation is read again from its end. */
const newPages = 5;

/**
 * Drawing new frames takes at most this share of the time, so that a burst leaves time for the operator; a slow stream is drawn frame by frame.
 * Milliseconds: the drawing that may be done at once after a pause, the time of a picture on the screen, and the most that one drawing counts.
 */
const drawShare = 1 / 9;
const drawSaved = 60;
const frameTime = 17;
const mostCost = 100;

/** How often the session is read again because a frame came meanwhile. */
const readTries = 3;

/** The delay after a model call until the cost is read again. No frame has the cost. */
const costSoon = 1500;

/** SessionView holds the data of a session's page: stored messages, live frames and pending approvals. */
export class SessionView {
  session = $state.raw<Session | null>(null);
  approvals = $state.raw<Approval[]>([]);
  error = $state.raw<unknown>(null);
  /** Counts changes of the rows. Everything that is drawn from the transcript depends on it, except the text of a live row. */
  tick = $state(0);
  /** Counts drawings in which the last text has grown. */
  texts = $state(0);
  link = $state<SocketState>("connecting");
  loaded = $state(false);
  /** Counts compactions that ended or were undone. */
  compacted = $state(0);
  /** The estimated tokens that the last compaction of the root agent has left, null once the estimate was read after it. */
  left = $state<number | null>(null);
  readonly transcript = new Transcript();
  private socket: SessionSocket | null = null;
  /** Frames that are applied to the transcript, and what they have changed, since the last drawing. */
  private queue: Frame[] = [];
  private changed = { rows: false, text: false };
  /** Called when the last text has grown, some time before it is drawn, and once more when it is drawn next. */
  grown: ((next: boolean) => void) | null = null;
  private drawing = 0;
  private drawn = 0;
  /** The time that drawing may take, negative after a drawing that took more, and when it was computed. */
  private spare = drawSaved;
  private spareAt = 0;
  private readonly painted = new MessageChannel();
  /** Whether what was drawn last is not painted yet, so that its cost is not known. */
  private painting = false;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private gone = false;
  private costing: ReturnType<typeof setTimeout> | undefined;
  /** The frames as server-sent events, while another client holds the socket. */
  private beside: SessionStream | null = null;
  private reads = false;
  /** The last applied number of each channel. Socket and stream may send the same frame. */
  private applied: Record<string, number> = {};
  private fresh: Promise<void> | null = null;
  private again = false;
  /** Counts the frames that changed the session's state. */
  private told = 0;
  /** Whether a reading has failed. */
  private stale = false;
  /** Whether older messages exist, and whether they are being read. */
  older = $state(false);
  reading = $state(false);
  private cursor: string | null = null;
  private last = "";
  private news: Promise<void> | null = null;
  private olderPage: Promise<void> | null = null;
  /** Whether all older messages are being read: their rows are drawn at the end. */
  private all = false;
  /** Prepares the rows of so many first entries for drawing, or without a number the list of all rows. */
  prepare: (entries?: number) => void = () => {};

  constructor(readonly id: string) {
    this.painted.port1.onmessage = () => {
      this.painting = false;
      this.spare -= Math.min(mostCost, performance.now() - this.drawn);
      if (this.queue.length) this.draw();
    };
    void this.begin();
  }

  close(): void {
    this.gone = true;
    this.painted.port1.close();
    this.socket?.close();
    this.beside?.close();
    cancelAnimationFrame(this.drawing);
    clearTimeout(this.pause);
    clearTimeout(this.costing);
  }

  private async begin(): Promise<void> {
    try {
      const [session] = await Promise.all([kaged.call("GET /api/v1/sessions/{id}", { id: this.id }), this.readMessages(), this.readApprovals()]);
      this.session = session;
      this.loaded = true;
      this.tick++;
      interactive();
      await Promise.all([this.readAgents(), this.readRun(session)]);
      this.tick++;
      if (this.gone || session.state === "ended") return;
      this.follow(session.current_run !== null);
    } catch (error) {
      this.error = error;
    }
  }

  /** follow opens the socket. During a run it requests all stored frames, otherwise only new ones. */
  private follow(working: boolean, takeover = false): void {
    this.socket?.close();
    const known = this.session?.updated_at;
    let first = true;
    this.socket = kaged.socket(this.id, {
      onFrame: (frame) => this.take(frame),
      onReset: () => { this.applied = {}; void this.refresh(); },
      onGap: () => void this.refresh(),
      onState: (state) => {
        this.link = state;
        if (state === "held" || state === "replaced") this.readBeside(this.session?.current_run !== null);
        if (state === "live" || state === "ended" || state === "closed") this.leaveBeside();
        if (state !== "live") return;
        if (first && !working) void this.missed(known);
        else if (!first) void (this.stale ? this.refresh() : this.refreshSession());
        first = false;
      },
    }, { takeover, ...(working ? { resume: { output: 0, events: 0 } } : {}) });
  }

  /** missed reads the changes between reading the stored state and opening the socket. */
  private async missed(known: number | undefined): Promise<void> {
    const session = await this.refreshSession();
    if (!session || session.updated_at === known) return;
    if (session.current_run) this.follow(true);
    else await this.refresh();
  }

  /** queued adds a steering message as queued, until a frame reports its state. */
  queued(id: string, content: string): void {
    this.transcript.steer({ message_id: id, content, state: "queued", at: Date.now(), run_id: null });
    this.tick++;
  }

  takeOver(): void {
    this.follow(this.session?.current_run !== null, true);
  }

  private take(frame: Frame): void {
    if (frame.seq > 0) {
      if (frame.seq <= (this.applied[frame.channel] ?? 0)) return;
      this.applied[frame.channel] = frame.seq;
    }
    this.apply(frame);
    this.queue.push(frame);
    // A hidden page gets no animation frames.
    if (document.hidden || this.queue.length > 2000) this.flush();
    else this.draw();
  }

  private apply(frame: Frame): void {
    const change = this.transcript.apply(frame);
    if (change === "rows") this.changed.rows = true;
    if (change !== "text") return;
    this.changed.text = true;
    this.parse(false);
  }

  /** parse does a part of the drawing of a grown text between two frames, so that the frame which draws it is short. */
  private parse(next: boolean): void {
    const began = performance.now();
    this.grown?.(next);
    this.spare -= performance.now() - began;
  }

  /** draw draws what has come before the next paint, or later if drawing has taken its share of the time. */
  private draw(): void {
    if (this.drawing || this.pause !== undefined || this.painting) return;
    const now = performance.now();
    this.spare = Math.min(drawSaved, this.spare + (now - this.spareAt) * drawShare);
    this.spareAt = now;
    const wait = -this.spare / drawShare;
    if (wait > frameTime) {
      this.pause = setTimeout(() => {
        this.pause = undefined;
        this.parse(true);
        // What the parsing took makes the next pause longer, not this one: else a stream of costly text is never drawn.
        this.drawing = requestAnimationFrame(() => this.flush());
      }, wait - frameTime / 2);
      return;
    }
    this.drawing = requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    this.drawn = performance.now();
    const frames = this.queue;
    this.queue = [];
    const { rows, text } = this.changed;
    this.changed = { rows: false, text: false };
    frames.forEach((frame) => this.event(frame));
    if (!rows && !text) return;
    if (rows) this.tick++;
    if (text) this.texts++;
    // A message that is posted in an animation frame arrives after the paint.
    if (document.hidden) return;
    this.painting = true;
    this.painted.port2.postMessage(0);
  }

  private event(frame: Frame): void {
    switch (frame.type) {
      case "session.state":
        this.told++;
        if (this.session) this.session = { ...this.session, state: frame.payload.state as Session["state"], blocked_reason: frame.payload.blocked_reason ?? null };
        // A waiting message has no frame of its own.
        if (frame.payload.state === "queued") void this.reread(this.readMessages());
        break;
      case "run.started":
        this.told++;
        this.left = null; // frames of earlier runs may have come after the estimate
        if (this.session) this.session = { ...this.session, current_run: frame.payload.run_id };
        void this.reread(this.readMessages());
        break;
      case "message.steer":
        if (frame.payload.state !== "queued") void this.reread(this.readMessages());
        break;
      case "run.ended":
        void this.refresh();
        break;
      case "approval.requested":
      case "approval.resolved":
        void this.reread(this.readApprovals());
        break;
      case "budget.state":
        if (frame.payload.scope === "session" && this.session?.budget) {
          const { limit, spent, reserved } = frame.payload;
          this.session = { ...this.session, budget: { ...this.session.budget, limit, spent, reserved } };
        }
        break;
      case "subagent.end":
        void this.refreshSession();
        break;
      case "message.start":
      case "message.tool_call":
      case "message.tool_result":
      case "subagent.tool_call":
      case "subagent.tool_result":
        this.costing ??= setTimeout(() => {
          this.costing = undefined;
          if (this.session?.current_run) void this.refreshSession();
        }, costSoon);
        break;
      case "compaction.completed":
        if (!frame.payload.invocation_id) this.left = frame.payload.after_estimate;
        this.compacted++;
        break;
      case "compaction.undone":
        this.left = null;
        this.compacted++;
        break;
      case "compaction.noop":
        this.compacted++;
        break;
    }
  }

  /** reread waits for a read. A failed read is repeated when the socket reconnects. */
  private async reread(reading: Promise<void>): Promise<void> {
    try {
      await reading;
    } catch (error) {
      this.failed(error);
    }
    this.tick++;
  }

  private failed(error: unknown): void {
    this.stale = true;
    if (!(error instanceof KagedError && (error.code === "unreachable" || error.status === 401))) this.error = error;
  }

  async refreshSession(): Promise<Session | null> {
    try {
      // An answer that was on its way while a frame came may be older than the frame.
      let session: Session, told: number, tries = 0;
      do {
        told = this.told;
        session = await kaged.call("GET /api/v1/sessions/{id}", { id: this.id });
      } while (told !== this.told && ++tries < readTries);
      this.session = session;
      this.error = null;
      return session;
    } catch (error) {
      this.failed(error);
      return null;
    }
  }

  /** refresh reads the stored data. Calls during a read cause one further read. */
  refresh(): Promise<void> {
    if (this.fresh) {
      this.again = true;
      return this.fresh;
    }
    this.fresh = this.readStored().finally(() => {
      this.fresh = null;
      if (!this.again || this.gone) return;
      this.again = false;
      void this.refresh();
    });
    return this.fresh;
  }

  private async readStored(): Promise<void> {
    this.stale = false;
    try {
      await Promise.all([this.readMessages(), this.refreshSession(), this.readApprovals(), this.readAgents()]);
      if (this.session && this.link !== "live") await this.readRun(this.session);
    } catch (error) {
      this.failed(error);
    }
    this.tick++;
  }

  /** readBeside follows the session by a stream while another client holds the session. */
  private readBeside(working: boolean): void {
    if (this.beside || this.gone) return;
    void this.refresh();
    this.beside = kaged.stream(this.id, {
      onFrame: (frame) => this.take(frame),
      onReset: () => { this.applied = {}; void this.refresh(); },
      onState: (state) => {
        this.reads = state === "live";
        if (state === "live") void this.refresh();
      },
    }, working ? "output:0,events:0" : "");
  }

  private leaveBeside(): void {
    this.beside?.close();
    this.beside = null;
    this.reads = false;
  }

  /** readMessages reads the messages since the last stored answer; the first call reads the end of the conversation. */
  private readMessages(): Promise<void> {
    return (this.news ??= this.readNews().finally(() => (this.news = null)));
  }

  private async readNews(): Promise<void> {
    const route = "GET /api/v1/sessions/{session_id}/messages";
    const first = this.transcript.entries.length === 0;
    const found: SessionMessage[] = [];
    let cursor: string | null = null;
    for (let n = 0; ; n++) {
      const page: Answer<typeof route> = await kaged.call(route, {
        session_id: this.id, newest_first: true, limit: first ? firstPage : fullPage,
        ...(this.last ? { since: this.last } : {}), ...(cursor ? { cursor } : {}),
      });
      const anew = n > newPages;
      if (anew) {
        this.transcript.forget();
        found.length = 0;
      }
      found.push(...page.items);
      cursor = page.next_cursor;
      if (first || anew) {
        this.transcript.older(found, page.turns_before ?? 0);
        this.cursor = cursor;
        this.older = cursor !== null;
        break;
      }
      if (!cursor) {
        this.transcript.newer([...found].reverse());
        break;
      }
    }
    // An answer is stored after its question, so the messages after the last answer are read again.
    this.last = found.find((one) => one.role === "primary")?.id ?? this.last;
    this.transcript.floor = found.find((one) => one.role === "primary" && !one.metadata?.kind)?.id ?? this.transcript.floor;
  }

  /** readOlder reads the page before the oldest message. */
  readOlder(limit = olderPage): Promise<void> {
    return (this.olderPage ??= this.readOlderPage(limit).finally(() => (this.olderPage = null)));
  }

  private async readOlderPage(limit: number): Promise<void> {
    if (!this.cursor || this.gone) return;
    this.reading = true;
    try {
      const page = await kaged.call("GET /api/v1/sessions/{session_id}/messages", { session_id: this.id, newest_first: true, limit, cursor: this.cursor });
      const known = this.transcript.entries.length;
      this.transcript.older(page.items, page.turns_before ?? 0);
      this.cursor = page.next_cursor;
      // Reading the answer, preparing its rows and drawing them are three tasks, so that none is long.
      await nextTask();
      this.prepare(this.transcript.entries.length - known);
      if (this.all) return;
      await nextTask();
      this.older = this.cursor !== null;
      this.tick++;
    } catch (error) {
      if (!(error instanceof KagedError && error.code === "unreachable")) this.error = error;
    } finally {
      this.reading = this.all;
    }
  }

  /** readAll reads until the first message, and draws the rows of all pages together: their list is made in one task and drawn in the next. */
  async readAll(): Promise<void> {
    this.all = true;
    for (let cursor: string | null = ""; this.cursor && this.cursor !== cursor && !this.gone; ) {
      cursor = this.cursor;
      await this.readOlder(fullPage);
    }
    await nextTask();
    this.prepare();
    await nextTask();
    this.all = this.reading = false;
    this.older = this.cursor !== null;
    this.tick++;
  }

  private async readApprovals(): Promise<void> {
    const page = await kaged.call("GET /api/v1/sessions/{session_id}/approvals", { session_id: this.id, state: "pending", limit: 200 });
    this.approvals = page.items.filter((one) => one.state === "pending");
  }

  private async readAgents(): Promise<void> {
    for await (const row of kaged.items("GET /api/v1/sessions/{session_id}/invocations", { session_id: this.id })) this.transcript.invocation(row);
  }

  /** readRun adds the stored steps of a run in progress, whose frames may have expired or be unavailable. */
  private async readRun(session: Session): Promise<void> {
    if (!session.current_run) return;
    const run = await kaged.call("GET /api/v1/sessions/{session_id}/runs/{run_id}", { session_id: this.id, run_id: session.current_run });
    const live = this.link === "live" || this.reads;
    if (!run.message_id) return;
    this.transcript.steps(this.transcript.logs, run.message_id, run.id, run.steps, live);
    // Without a connection too, its answer is not over.
    const log = this.transcript.logs.get(run.message_id);
    if (log && !log.stored && run.ended_at === null) log.live = true;
  }

  /** readChild returns the log of a child agent, from its stored steps if no frames of it were received, and reads its prompt. */
  async readChild(invocation: string): Promise<Log | undefined> {
    const known = this.transcript.children.get(invocation);
    const has = known !== undefined && known.blocks.length + known.seen.length > 0;
    if (has && this.transcript.asked.has(invocation)) return known;
    const detail = await kaged.call("GET /api/v1/sessions/{session_id}/invocations/{invocation_id}", { session_id: this.id, invocation_id: invocation });
    this.transcript.asked.set(invocation, detail.prompt ?? "");
    if (has) {
      this.tick++;
      return known;
    }
    this.transcript.steps(this.transcript.children, invocation, detail.run_id, detail.run_steps, false);
    const log = this.transcript.children.get(invocation);
    if (log) log.live = ["pending", "running"].includes(detail.state);
    this.tick++;
    return log;
  }
}

/** nextTask resolves in a task of its own. */
function nextTask(): Promise<void> {
  return new Promise((done) => setTimeout(done));
}

let early: SessionView | null = null;

/** openEarly begins to read the session that a path names, before anything is drawn. */
export function openEarly(path: string): void {
  const id = /^\/sessions\/(\w+)\/?$/.exec(path)?.[1];
  if (id) early = new SessionView(id);
}

/** viewOf returns the view of a session, which its page closes. */
export function viewOf(id: string): SessionView {
  const view = early?.id === id ? early : new SessionView(id);
  if (early !== view) early?.close();
  early = null;
  return view;
}
