import type { Approval, FoundSession, GetSpendResponse, ListProcessesResponse, ProjectSummary, RunningCount } from "@kaged/client";
import { kaged, KagedError } from "./api";
import { daemon } from "./daemon.svelte";
import { desk, soon, type Wanted } from "./desk.svelte";
import { afterInteractive, interactive } from "./marks";

/** Polling intervals while the system socket is not live, for a visible and a hidden page. */
const often = 2500;
const seldom = 15_000;
/** Intervals for reading commands and spend, which have no frames, while runs are in progress and while the sessions are idle. */
const atWork = 5000;
const atRest = 60_000;

/** The number of projects whose files are compared with their approved versions. */
const comparedProjects = 20;

const lookedKey = "kaged.looked";
/** The number of failed runs that are remembered as looked at. */
const lookedKept = 500;

function readLooked(): string[] {
  try {
    return (localStorage.getItem(lookedKey) ?? "").split(" ").filter(Boolean);
  } catch {
    return [];
  }
}

/** hasFailed reports whether a session rests after a run that failed. */
export const hasFailed = (one: FoundSession) => one.state === "failed" || one.state === "idle" && one.last_run?.state === "failed";

const wanted: Wanted = (frame) => frame.type !== "issue.created" && frame.type !== "issue.updated" && frame.type !== "system.hello";

/** Inbox has the pending approvals, the running work and the recent sessions, for the whole console. */
class Inbox {
  sessions = $state.raw<FoundSession[]>([]);
  approvals = $state.raw<Approval[]>([]);
  processes = $state.raw<ListProcessesResponse>({ processes: [], cages: [], runs: [] });
  projects = $state.raw<ProjectSummary[]>([]);
  spend = $state.raw<GetSpendResponse | null>(null);
  /** The projects whose changed files wait for the operator's approval. */
  changed = $state.raw<ProjectSummary[]>([]);
  more = $state(false);
  loaded = $state(false);
  error = $state.raw<unknown>(null);
  now = $state(Date.now());
  notify = $state(localStorage.getItem("kaged.notify") === "yes");
  /** The sessions whose latest run has failed, unless the operator has looked at it. */
  failed = $derived(this.sessions.filter((one) => hasFailed(one) && !this.looked.has(one.last_run?.id ?? one.id)));
  waiting = $derived(this.approvals.length + this.changed.length + this.failed.length);
  private looked = $state.raw(new Set<string>(readLooked()));
  private timer: ReturnType<typeof setTimeout> | undefined;
  private known = new Set<string>();
  private running = new Set<string>();
  private reads = 0;
  private stale = true;
  private started = false;
  private count: RunningCount | null = null;
  /** The number of the last reading before a slot became free, until the next reading. */
  private freed = Infinity;

  start(): void {
    if (this.started) return;
    this.started = true;
    setInterval(() => (this.now = Date.now()), 1000);
    document.addEventListener("visibilitychange", () => document.hidden || this.soon(0));
    addEventListener("online", () => this.soon(0));
    addEventListener("offline", () => this.soon(0));
    desk.on((frame) => {
      // Projects and spend change with projects and with runs that end.
      if (frame.type === "project.changed" || frame.type === "sessions.running_count") this.stale = true;
      if (frame.type === "sessions.running_count") this.counted(frame.payload);
      return wanted(frame);
    }, soon(() => this.read(), 300));
    const begin = () => {
      desk.start();
      void this.read();
    };
    // The page of a session asks for the session first.
    if (location.pathname.startsWith("/sessions/")) afterInteractive(begin);
    else begin();
  }

  /** again reads everything now, including projects and spend. */
  again(): void {
    this.stale = true;
    this.soon(0);
  }

  soon(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.read(), ms);
  }

  private async read(): Promise<void> {
    clearTimeout(this.timer);
    const n = ++this.reads;
    try {
      const [approvals, sessions, processes] = await Promise.all([
        kaged.call("GET /api/v1/approvals", { state: "pending", limit: 200 }),
        kaged.call("GET /api/v1/sessions", { limit: 100 }),
        kaged.call("GET /api/v1/processes").catch(() => this.processes),
      ]);
      if (this.stale || n % 8 === 0) {
        this.stale = false;
        const [projects, spend] = await Promise.all([kaged.call("GET /api/v1/projects", { limit: 200 }), kaged.call("GET /api/v1/spend")]);
        this.projects = projects.items;
        this.spend = spend;
        void this.readChanged();
      }
      this.tell(approvals.items, sessions.items);
      this.approvals = approvals.items;
      this.sessions = sessions.items;
      // Only a reading that began after the slot became free is sure to have the sessions that wait.
      if (n > this.freed) {
        this.freed = Infinity;
        this.startWaiting();
      }
      this.look();
      this.more = sessions.has_more;
      this.processes = processes;
      this.loaded = true;
      this.error = null;
      if (!location.pathname.startsWith("/sessions/")) interactive();
    } catch (error) {
      this.error = error;
      this.stale = true;
      if (error instanceof KagedError && error.code === "unreachable") daemon.reachable = false;
    }
    if (desk.live) this.soon(!document.hidden && this.processes.runs.length ? atWork : atRest);
    else this.soon(document.hidden ? seldom : often);
  }

  /** counted notes that a slot has become free. A session that waits since before the console was open stays: it was left so. */
  private counted(count: RunningCount): void {
    if (this.count && count.total < this.count.total) this.freed = this.reads;
    this.count = count;
  }

  /** startWaiting starts the session that has waited longest for a slot, if one is free. */
  private startWaiting(): void {
    const { count } = this;
    if (!count?.limits) return;
    const { per_project, per_operator } = count.limits;
    if (count.total >= per_operator) return;
    const waits = this.sessions.filter((one) => one.state === "queued" && (count.per_project[one.project_id] ?? 0) < per_project);
    const first = waits.reduce<FoundSession | null>((a, b) => (a && a.updated_at <= b.updated_at ? a : b), null);
    // Another page may have started it, or another run may have the slot.
    if (first) kaged.call("POST /api/v1/sessions/{session_id}/resume", { session_id: first.id }).catch(() => {});
  }

  /** readChanged looks for changed project files, of the projects that were used last. */
  private async readChanged(): Promise<void> {
    const used = this.projects.filter((one) => one.state === "ready").sort((a, b) => (b.last_opened_at ?? 0) - (a.last_opened_at ?? 0)).slice(0, comparedProjects);
    try {
      const states = await Promise.all(used.map((one) => kaged.call("GET /api/v1/projects/{id}/approval", { id: one.id })));
      this.changed = used.filter((_, i) => states[i]!.state === "required");
    } catch {
      // The next reading repeats it.
    }
  }

  /** look remembers that the operator has looked at a failure: of a session, or of the session in view. */
  look(id = document.hidden ? "" : /^\/sessions\/(\w+)/.exec(location.pathname)?.[1] ?? ""): void {
    const one = this.failed.find((found) => found.id === id);
    if (!one) return;
    this.looked = new Set([...this.looked, one.last_run?.id ?? one.id].slice(-lookedKept));
    localStorage.setItem(lookedKey, [...this.looked].join(" "));
  }

  /** tell shows browser notifications of new approvals and ended runs, one per session, unless the session is in view. */
  private tell(approvals: Approval[], sessions: FoundSession[]): void {
    for (const one of approvals) {
      if (!this.known.has(one.id) && this.loaded) this.say(one.session_id, "needs your approval", sessions);
      this.known.add(one.id);
    }
    const running = new Set(sessions.filter((one) => one.state === "running").map((one) => one.id));
    for (const id of this.running) {
      const now = sessions.find((one) => one.id === id);
      if (now && !running.has(id)) this.say(id, hasFailed(now) ? "has failed" : "is done", sessions);
    }
    this.running = running;
  }

  private say(session: string, what: string, sessions: FoundSession[]): void {
    if (!this.notify || !("Notification" in window) || Notification.permission !== "granted") return;
    if (!document.hidden && location.pathname === `/sessions/${session}`) return;
    const name = sessions.find((one) => one.id === session)?.name ?? "A session";
    const shown = new Notification(`${name} ${what}`, { tag: session });
    shown.onclick = () => {
      window.focus();
      location.assign(`/sessions/${session}`);
    };
  }

  async askToNotify(on: boolean): Promise<void> {
    this.notify = on && "Notification" in window && (await Notification.requestPermission()) === "granted";
    localStorage.setItem("kaged.notify", this.notify ? "yes" : "no");
  }
}

export const inbox = new Inbox();
