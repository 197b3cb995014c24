import type { Client } from "./client.js";
import { KagedError } from "./client.js";
import { Terminal, parseBinary, type TerminalHandlers } from "./terminal.js";
import type { Frames } from "./types.gen.js";

/** Frame is a numbered frame of a channel, with its payload by its type. */
export type Frame = { [T in keyof Frames]: { channel: string; seq: number; type: T; payload: Frames[T] } }[keyof Frames];

/**
 * SocketState says where a socket stands:
 * connecting; live; waiting, for the next try; held, by another client; replaced, by another client's takeover; ended,
 * with its session; closed, by close().
 */
export type SocketState = "connecting" | "live" | "waiting" | "held" | "replaced" | "ended" | "closed";

/** Gap is a hole in a channel's numbers. */
export interface Gap {
  channel: string;
  from: number;
  to: number;
}

export interface SocketHandlers {
  /** Each frame once, in the order of its channel. */
  onFrame: (frame: Frame) => void;
  /** A new state; retryAt is when a waiting socket tries again. */
  onState?: (state: SocketState, retryAt?: number) => void;
  /** The place to resume at is not kept any more: read what is stored, frames go on from now. */
  onReset?: () => void;
  /** Frames are missing. */
  onGap?: (gap: Gap) => void;
}

export interface SocketOptions {
  channels?: string[];
  /** The last numbers seen by channel; 0 asks for everything that is kept. Without it, what comes from now on. */
  resume?: Record<string, number>;
  /** Close the client that holds the session. */
  takeover?: boolean;
  /** Show terminals only: there are no frames, and the session stays with the client that holds it. */
  terminalsOnly?: boolean;
  /** The longest pause between tries, in milliseconds. */
  maxDelay?: number;
}

/** Refusal is the payload of control error. */
interface Refusal {
  code?: string;
  message?: string;
  details?: Record<string, unknown>;
}

const firstDelay = 250;
const pingEvery = 20_000;
const pongWithin = 10_000;

/** SessionSocket follows one session and resumes at the last frame it has seen. */
export class SessionSocket {
  readonly seen: Record<string, number>;
  private socket: WebSocket | null = null;
  private state: SocketState = "connecting";
  private delay = firstDelay;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pings: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  private closing = "";
  private takeover: boolean;
  private readonly channels: string[];
  private readonly terminals = new Map<string, Terminal>();
  /** After the network was away a socket may only seem to be there. */
  private readonly wake = () => (this.state === "live" ? this.ping() : this.retryNow());

  constructor(
    private readonly client: Client,
    readonly sessionId: string,
    private readonly handlers: SocketHandlers,
    private readonly options: SocketOptions = {},
  ) {
    this.channels = options.terminalsOnly ? [] : (options.channels ?? ["output", "events"]);
    this.seen = { ...options.resume };
    this.takeover = options.takeover ?? false;
    if (typeof addEventListener === "function") addEventListener("online", this.wake);
    void this.connect();
  }

  /** close ends it for good. */
  close(): void {
    this.stop("closed");
  }

  /** retryNow does not wait for the next try. */
  retryNow(): void {
    if (this.state === "waiting" || this.state === "held") void this.connect();
  }

  /** takeOver closes the client that holds the session. */
  takeOver(): void {
    this.takeover = true;
    void this.connect();
  }

  /**
   * terminal shows a background process of the session and types on it. It is subscribed again after each interruption, from the last
   * byte on. One process has one terminal at a socket: a second call returns another one in its place.
   */
  terminal(processId: string, handlers: TerminalHandlers, offset = 0): Terminal {
    this.terminals.get(processId)?.close();
    const terminal = new Terminal(
      {
        control: (type, payload) => this.state === "live" && this.send(type, payload),
        binary: (data) => this.sendBinary(data),
        forget: (one) => {
          if (this.terminals.get(processId) === one) this.terminals.delete(processId);
        },
      },
      processId,
      handlers,
      offset,
    );
    this.terminals.set(processId, terminal);
    if (this.state === "live") terminal.subscribe();
    return terminal;
  }

  private enter(state: SocketState, retryAt?: number): void {
    this.state = state;
    this.handlers.onState?.(state, retryAt);
  }

  private stop(state: SocketState): void {
    clearTimeout(this.timer);
    clearInterval(this.pings);
    const socket = this.socket;
    this.socket = null;
    if (socket) socket.close();
    if (state !== "replaced" && typeof removeEventListener === "function") removeEventListener("online", this.wake);
    this.enter(state);
  }

  private async connect(): Promise<void> {
    clearTimeout(this.timer);
    clearInterval(this.pings);
    this.socket?.close();
    this.socket = null;
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
    const query = this.options.terminalsOnly ? "?terminals=1" : this.takeover ? "?takeover=1" : "";
    const url = `${base.replace(/^http/, "ws")}/api/v1/sessions/${encodeURIComponent(this.sessionId)}/socket${query}`;
    const protocols = token ? ["kaged.v1"] : ["kaged.v1", `kaged.csrf.${csrf}`];
    // Programs that are no browser send the token in a header, which their WebSocket takes as an option.
    const options = token ? { protocols, headers: { Authorization: `Bearer ${token}` } } : protocols;
    const socket = new make(url, options as string[]);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.closing = "";
    let welcome = false;
    socket.onopen = () => this.send("hello", { resume_from_seq: this.seen });
    socket.onmessage = (event) => {
      if (this.socket !== socket) return;
      this.heard = Date.now();
      if (typeof event.data !== "string") return this.takeBinary(event.data as ArrayBuffer);
      const frame = JSON.parse(event.data);
      if (frame.channel === "control" && frame.type === "welcome") {
        welcome = true;
        this.welcome(frame.payload.server_seq ?? {});
        return;
      }
      this.take(frame);
    };
    socket.onclose = (event) => {
      if (this.socket === socket) void this.lost(welcome, event.code);
    };
    // onclose follows at once, but for a refused connection in Node, which tells it by an error alone.
    socket.onerror = () => setTimeout(() => {
      if (this.socket === socket) void this.lost(welcome, 1006);
    });
  }

  private welcome(server: Record<string, number>): void {
    this.takeover = false;
    this.delay = firstDelay;
    for (const channel of this.channels) this.seen[channel] ??= server[channel] ?? 0;
    if (this.channels.length) this.send("subscribe", { channels: this.channels });
    this.pings = setInterval(() => this.ping(), pingEvery);
    this.enter("live");
    for (const terminal of [...this.terminals.values()]) terminal.subscribe();
  }

  private ping(): void {
    const asked = Date.now();
    this.send("ping", {});
    setTimeout(() => {
      if (this.state === "live" && this.heard < asked) {
        this.socket?.close();
        void this.lost(true, 1006); // a machine that slept has a socket that only seems to be there
      }
    }, pongWithin);
  }

  private take(frame: Frame & { type: string; payload: { code?: string } }): void {
    if (frame.channel === "control") {
      if ((frame.type as string) === "closing") this.closing = frame.payload.code ?? "";
      if ((frame.type as string) === "error") this.refused(frame.payload as Refusal);
      return;
    }
    const last = this.seen[frame.channel];
    if (frame.seq > 0 && last !== undefined) {
      if (frame.seq <= last) return;
      if (frame.seq > last + 1 && last > 0) this.handlers.onGap?.({ channel: frame.channel, from: last + 1, to: frame.seq - 1 });
    }
    if (frame.seq > 0) this.seen[frame.channel] = frame.seq;
    this.handlers.onFrame(frame as Frame);
  }

  private takeBinary(buffer: ArrayBuffer): void {
    const frame = parseBinary(buffer);
    const terminal = frame && this.terminals.get(frame.processId);
    if (!terminal) return;
    if (!frame.event) return terminal.data(frame.data);
    const { type, payload } = JSON.parse(new TextDecoder().decode(frame.data));
    terminal.event(type, payload);
  }

  private refused(refusal: Refusal): void {
    const channel = String(refusal.details?.["channel"] ?? "");
    const terminal = channel.startsWith("pty:") && this.terminals.get(channel.slice("pty:".length));
    if (terminal) terminal.refused(new KagedError(refusal.message ?? "", refusal.code ?? "internal", 0, refusal.details));
  }

  private async lost(welcome: boolean, code: number): Promise<void> {
    clearInterval(this.pings);
    this.socket = null;
    switch (this.closing) {
      case "session_ended":
        return this.stop("ended");
      case "replaced":
        return this.stop("replaced");
      case "resume_failed":
        for (const channel of Object.keys(this.seen)) delete this.seen[channel];
        this.handlers.onReset?.();
        this.delay = firstDelay;
        break;
    }
    if (!welcome && code !== 1008 && this.state === "connecting" && !this.closing) {
      // A browser does not say why a handshake was refused: the session itself does, and the token may be of an old sign-in.
      this.client.forget();
      try {
        const session = await this.client.call("GET /api/v1/sessions/{id}", { id: this.sessionId });
        if (session.state === "ended") return this.stop("ended");
        return this.later(0, "held");
      } catch (error) {
        if (error instanceof KagedError && error.status === 404) return this.stop("ended");
      }
    }
    this.later(0);
  }

  /** later plans the next try. */
  private later(atLeast: number, state: SocketState = "waiting"): void {
    if (this.state === "closed" || this.state === "ended") return;
    const wait = Math.max(atLeast, this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, this.options.maxDelay ?? 8_000);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), wait);
    this.enter(state, Date.now() + wait);
  }

  private sendBinary(data: Uint8Array): boolean {
    if (this.state !== "live" || this.socket?.readyState !== 1) return false;
    this.socket.send(data as Uint8Array<ArrayBuffer>);
    return true;
  }

  private send(type: string, payload: unknown): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify({ channel: "control", type, payload }));
  }
}
