import type { Client } from "./client.js";
import { KagedError } from "./client.js";

/** LineState is the state of a connection. over lasts until the next connect, or forever after close. */
export type LineState = "connecting" | "live" | "waiting" | "over";

export interface LineOwner {
  /** The path of the socket, computed at each attempt. */
  path: () => string;
  /** The state has changed; retryAt is the time of the next attempt of a waiting line. */
  entered: (state: LineState, retryAt?: number) => void;
  opened?: () => void;
  text: (data: string) => void;
  binary?: (data: ArrayBuffer) => void;
  /** The connection is lost. The owner calls later or close. */
  lost: (code: number) => void;
}

const firstDelay = 250;
const pingEvery = 20_000;
const pongWithin = 10_000;

/** Line is a WebSocket to the daemon. It reconnects after each loss, with growing pauses. */
export class Line {
  state: LineState = "over";
  private socket: WebSocket | null = null;
  private delay = firstDelay;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pings: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  /** After a loss of the network, an open socket may be dead. */
  private readonly wake = () => (this.state === "live" ? this.ping() : this.retryNow());

  constructor(
    private readonly client: Client,
    private readonly owner: LineOwner,
    private readonly maxDelay = 8_000,
  ) {
    if (typeof addEventListener === "function") addEventListener("online", this.wake);
  }

  /** connect opens a new socket and drops the current one. */
  async connect(): Promise<void> {
    this.drop();
    this.enter("connecting");
    try {
      this.open(await this.client.csrfToken());
    } catch (error) {
      if (this.state === "connecting") this.later(error instanceof KagedError && error.status === 401 ? 2_000 : 0);
    }
  }

  /** welcomed is called after the daemon's welcome. From then on the connection is checked for silence. */
  welcomed(): void {
    this.delay = firstDelay;
    this.pings = setInterval(() => this.ping(), pingEvery);
    this.enter("live");
  }

  /** soon resets the next pause to the shortest one. */
  soon(): void {
    this.delay = firstDelay;
  }

  /** later schedules the next attempt. */
  later(atLeast = 0): void {
    if (this.state === "over") return;
    const wait = Math.max(atLeast, this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, this.maxDelay);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), wait);
    this.enter("waiting", Date.now() + wait);
  }

  /** retryNow reconnects without waiting. */
  retryNow(): void {
    if (this.state === "waiting") void this.connect();
  }

  /** rest closes the connection without another attempt. */
  rest(): void {
    this.drop();
    this.enter("over");
  }

  /** close ends the line; it does not reconnect. */
  close(): void {
    if (typeof removeEventListener === "function") removeEventListener("online", this.wake);
    this.rest();
  }

  /** send sends a control message, if the socket is open. */
  send(type: string, payload: unknown): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify({ channel: "control", type, payload }));
  }

  /** sendBinary sends data. It returns false, and drops the data, while the line is not live. */
  sendBinary(data: Uint8Array): boolean {
    if (this.state !== "live" || this.socket?.readyState !== 1) return false;
    this.socket.send(data as Uint8Array<ArrayBuffer>);
    return true;
  }

  private enter(state: LineState, retryAt?: number): void {
    this.state = state;
    this.owner.entered(state, retryAt);
  }

  /** drop abandons the connection without a closing handshake. */
  private drop(): void {
    clearTimeout(this.timer);
    clearInterval(this.pings);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  private open(csrf: string): void {
    if (this.state !== "connecting") return;
    const { token, WebSocket: other } = this.client.options;
    const make = other ?? globalThis.WebSocket;
    const base = this.client.baseUrl || location.origin;
    const protocols = token ? ["kaged.v1"] : ["kaged.v1", `kaged.csrf.${csrf}`];
    // Outside of browsers, WebSocket takes headers as an option; the token is sent in one.
    const options = token ? { protocols, headers: { Authorization: `Bearer ${token}` } } : protocols;
    const socket = new make(base.replace(/^http/, "ws") + this.owner.path(), options as string[]);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => this.socket === socket && this.owner.opened?.();
    socket.onmessage = (event) => {
      if (this.socket !== socket) return;
      this.heard = Date.now();
      if (typeof event.data === "string") this.owner.text(event.data);
      else this.owner.binary?.(event.data as ArrayBuffer);
    };
    const gone = (code: number) => {
      if (this.socket !== socket) return;
      this.drop();
      this.owner.lost(code);
    };
    socket.onclose = (event) => gone(event.code);
    // onclose follows, except in Node for a refused connection, which only reports an error.
    socket.onerror = () => setTimeout(() => gone(1006));
  }

  private ping(): void {
    const asked = Date.now();
    this.send("ping", {});
    setTimeout(() => {
      if (this.state !== "live" || this.heard >= asked) return;
      this.drop(); // after a sleep of the machine the socket may be dead
      this.owner.lost(1006);
    }, pongWithin);
  }
}
