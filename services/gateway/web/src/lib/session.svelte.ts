import type { Approval, Frame, Session, SessionSocket, SocketState } from "@kaged/client";
import { kaged, KagedError } from "./api";
import { Transcript, type Log } from "./transcript";

const pollEvery = 2000;

/** SessionView holds one session's page: what is stored, what comes, and what it waits for. */
export class SessionView {
  session = $state.raw<Session | null>(null);
  approvals = $state.raw<Approval[]>([]);
  error = $state.raw<unknown>(null);
  /** Counts flushes: what is drawn from the transcript depends on it. */
  tick = $state(0);
  link = $state<SocketState>("connecting");
  loaded = $state(false);
  readonly transcript = new Transcript();
  private socket: SessionSocket | null = null;
  private queue: Frame[] = [];
  private drawing = 0;
  private gone = false;
  private poll: ReturnType<typeof setInterval> | undefined;
  private last = "";

  constructor(readonly id: string) {
    void this.begin();
  }

  close(): void {
    this.gone = true;
    this.socket?.close();
    clearInterval(this.poll);
    cancelAnimationFrame(this.drawing);
  }

  private async begin(): Promise<void> {
    try {
      const session = await kaged.call("GET /api/v1/sessions/{id}", { id: this.id });
      this.session = session;
      await Promise.all([this.readMessages(), this.readApprovals(), this.readAgents()]);
      await this.readRun(session);
      this.loaded = true;
      this.tick++;
      performance.mark("kaged:interactive");
      if (this.gone || session.state === "ended") return;
      this.follow(session.current_run !== null);
    } catch (error) {
      this.error = error;
    }
  }

  /** follow opens the socket. Of a run at work everything that is kept is wanted; else what comes from now on. */
  private follow(working: boolean, takeover = false): void {
    this.socket?.close();
    const known = this.session?.updated_at;
    let first = true;
    this.socket = kaged.socket(this.id, {
      onFrame: (frame) => this.take(frame),
      onReset: () => void this.refresh(),
      onGap: () => void this.refresh(),
      onState: (state) => {
        this.link = state;
        this.polling(state === "held" || state === "replaced");
        if (state !== "live") return;
        if (first && !working) void this.missed(known);
        else if (!first) void this.refreshSession();
        first = false;
      },
    }, { takeover, ...(working ? { resume: { output: 0, events: 0 } } : {}) });
  }

  /** missed reads what happened between the stored state and the opening of the socket. */
  private async missed(known: number | undefined): Promise<void> {
    const session = await this.refreshSession();
    if (!session || session.updated_at === known) return;
    if (session.current_run) this.follow(true);
    else await this.refresh();
  }

  takeOver(): void {
    this.follow(this.session?.current_run !== null, true);
  }

  private take(frame: Frame): void {
    this.queue.push(frame);
    this.drawing ||= requestAnimationFrame(() => this.flush());
    // A hidden page gets no animation frames.
    if (document.hidden || this.queue.length > 2000) this.flush();
  }

  private flush(): void {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    const frames = this.queue;
    this.queue = [];
    let changed = false;
    for (const frame of frames) {
      changed = this.transcript.apply(frame) || changed;
      this.event(frame);
    }
    if (changed) this.tick++;
  }

  private event(frame: Frame): void {
    switch (frame.type) {
      case "session.state":
        if (this.session) this.session = { ...this.session, state: frame.payload.state as Session["state"], blocked_reason: frame.payload.blocked_reason ?? null };
        break;
      case "run.started":
        if (this.session) this.session = { ...this.session, current_run: frame.payload.run_id };
        void this.readMessages().then(() => this.tick++);
        break;
      case "run.ended":
        void this.refresh();
        break;
      case "approval.requested":
      case "approval.resolved":
        void this.readApprovals();
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
    }
  }

  async refreshSession(): Promise<Session | null> {
    try {
      this.session = await kaged.call("GET /api/v1/sessions/{id}", { id: this.id });
      this.error = null;
      return this.session;
    } catch (error) {
      if (error instanceof KagedError && (error.code === "unreachable" || error.status === 401)) return null;
      this.error = error;
      return null;
    }
  }

  async refresh(): Promise<void> {
    try {
      await Promise.all([this.readMessages(), this.refreshSession(), this.readApprovals(), this.readAgents()]);
      if (this.session && this.link !== "live") await this.readRun(this.session);
    } catch (error) {
      if (!(error instanceof KagedError && error.code === "unreachable")) this.error = error;
    }
    this.tick++;
  }

  /** polling reads what is stored while another client holds the socket. */
  private polling(on: boolean): void {
    clearInterval(this.poll);
    if (on && !this.gone) {
      void this.refresh();
      this.poll = setInterval(() => document.hidden || void this.refresh(), pollEvery);
    }
  }

  private async readMessages(): Promise<void> {
    let n = 0;
    const from = this.last ? { since: this.last } : {};
    let operator = "";
    for await (const message of kaged.items("GET /api/v1/sessions/{session_id}/messages", { session_id: this.id, ...from })) {
      this.transcript.stored(message);
      // An answer is stored after its question: what follows the last question is read again.
      if (message.role === "operator") operator = message.id;
      else if (message.role === "primary") this.last = message.id;
      if (++n % 1000 === 0) this.tick++;
    }
    void operator;
  }

  private async readApprovals(): Promise<void> {
    const page = await kaged.call("GET /api/v1/sessions/{session_id}/approvals", { session_id: this.id, state: "pending", limit: 200 });
    this.approvals = page.items.filter((one) => one.state === "pending");
  }

  private async readAgents(): Promise<void> {
    for await (const row of kaged.items("GET /api/v1/sessions/{session_id}/invocations", { session_id: this.id })) this.transcript.invocation(row);
  }

  /** readRun fills in what a run at work has stored, where its frames are not kept any more or not to be had. */
  private async readRun(session: Session): Promise<void> {
    if (!session.current_run) return;
    const run = await kaged.call("GET /api/v1/sessions/{session_id}/runs/{run_id}", { session_id: this.id, run_id: session.current_run });
    const live = this.link === "live";
    if (run.message_id) this.transcript.steps(this.transcript.logs, run.message_id, run.id, run.steps, live);
  }

  /** readChild returns what a child did, from its stored steps unless frames tell it. */
  async readChild(invocation: string): Promise<Log | undefined> {
    const known = this.transcript.children.get(invocation);
    if (known && known.blocks.length > 0) return known;
    const detail = await kaged.call("GET /api/v1/sessions/{session_id}/invocations/{invocation_id}", { session_id: this.id, invocation_id: invocation });
    this.transcript.steps(this.transcript.children, invocation, detail.run_id, detail.run_steps, false);
    const log = this.transcript.children.get(invocation);
    if (log) log.live = ["pending", "running"].includes(detail.state);
    this.tick++;
    return log;
  }
}
