import type { Client } from "./client.js";
import { KagedError } from "./client.js";
import type { SystemFrames } from "./types.gen.js";

/** SystemFrame tells of a change anywhere, with its payload by its type. */
export type SystemFrame = { [T in keyof SystemFrames]: { channel: "system"; seq: number; type: T; payload: SystemFrames[T] } }[keyof SystemFrames];

/** SystemState says where a system socket stands; waiting is for the next try. */
export type SystemState = "connecting" | "live" | "waiting" | "closed";

export interface SystemHandlers {
  /** A change. After a new connection, and after system.missed, what is shown is to be read again: onMissed. */
  onFrame: (frame: SystemFrame) => void;
  /** Changes may have been missed: at each new connection, and when the daemon says so. */
  onMissed?: () => void;
  onState?: (state: SystemState) => void;
}

const firstDelay = 250;
const pingEvery = 20_000;
const pongWithin = 10_000;

/** SystemSocket tells of the operator's sessions, projects, approvals and issues. It comes back after every interruption. */
export class SystemSocket {
  private socket: WebSocket | null = null;
  private state: SystemState = "connecting";
  private delay = firstDelay;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pings: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  private seq = 0;
  /** After the network was away a socket may only seem to be there. */
  private readonly wake = () => (this.state === "live" ? this.ping() : this.retryNow());

  constructor(
    private readonly client: Client,
    private readonly handlers: SystemHandlers,
    private readonly maxDelay = 8_000,
  ) {
    if (typeof addEventListener === "function") addEventListener("online", this.wake);
    void this.connect();
  }

  /** close ends it for good. */
  close(): void {
    this.enter("closed");
    this.drop();
    if (typeof removeEventListener === "function") removeEventListener("online", this.wake);
  }

  /** retryNow does not wait for the next try. */
  retryNow(): void {
    if (this.state === "waiting") void this.connect();
  }

  private enter(state: SystemState): void {
    this.state = state;
    this.handlers.onState?.(state);
  }

  /** drop leaves the connection without a word. */
  private drop(): void {
    clearTimeout(this.timer);
    clearInterval(this.pings);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  private async connect(): Promise<void> {
    this.drop();
    this.enter("connecting");
    try {
      this.open(await this.client.csrfToken());
    } catch (error) {
      if (this.state === "connecting") this.later(error instanceof KagedError && error.status === 401 ? 2_000 : 0);
    }
  }

  private open(csrf: string): void {
    if (this.state !== "connecting") return;
    const { token, WebSocket: other } = this.client.options;
    const make = other ?? globalThis.WebSocket;
    const base = this.client.baseUrl || location.origin;
    const protocols = token ? ["kaged.v1"] : ["kaged.v1", `kaged.csrf.${csrf}`];
    // Programs that are no browser send the token in a header, which their WebSocket takes as an option.
    const options = token ? { protocols, headers: { Authorization: `Bearer ${token}` } } : protocols;
    const socket = new make(`${base.replace(/^http/, "ws")}/api/v1/socket`, options as string[]);
    this.socket = socket;
    this.seq = 0;
    socket.onmessage = (event) => {
      if (this.socket === socket) this.take(JSON.parse(String(event.data)));
    };
    socket.onclose = () => {
      if (this.socket === socket) this.lost();
    };
    socket.onerror = () => setTimeout(() => {
      if (this.socket === socket) this.lost();
    });
  }

  private take(frame: { channel: string; seq: number; type: string }): void {
    this.heard = Date.now();
    if (frame.channel !== "system") return;
    const missed = frame.seq !== this.seq + 1 || frame.type === "system.missed";
    this.seq = frame.seq;
    if (frame.type === "system.hello") {
      this.delay = firstDelay;
      this.pings = setInterval(() => this.ping(), pingEvery);
      this.enter("live");
      this.handlers.onMissed?.();
    } else if (missed) this.handlers.onMissed?.();
    this.handlers.onFrame(frame as SystemFrame);
  }

  private ping(): void {
    const asked = Date.now();
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify({ channel: "control", type: "ping", payload: {} }));
    setTimeout(() => {
      if (this.state === "live" && this.heard < asked) this.lost(); // a machine that slept has a socket that only seems to be there
    }, pongWithin);
  }

  private lost(): void {
    this.drop();
    // The token may be of an old sign-in.
    if (this.state === "connecting") this.client.forget();
    this.later(0);
  }

  private later(atLeast: number): void {
    if (this.state === "closed") return;
    const wait = Math.max(atLeast, this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, this.maxDelay);
    this.timer = setTimeout(() => void this.connect(), wait);
    this.enter("waiting");
  }
}
