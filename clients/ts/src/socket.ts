import type { Client } from "./client.js";
import { KagedError } from "./client.js";
import { Line } from "./line.js";
import { Terminal, parseBinary, type TerminalHandlers } from "./terminal.js";
import type { Frames } from "./types.gen.js";

/** Frame is a numbered frame of a channel, with its payload by its type. */
export type Frame = { [T in keyof Frames]: { channel: string; seq: number; type: T; payload: Frames[T] } }[keyof Frames];

/**
 * SocketState is the state of a socket:
 * connecting; live; waiting, for the next attempt; held, by another client; replaced, by another client's takeover; ended,
 * with its session; closed, by close().
 */
export type SocketState = "connecting" | "live" | "waiting" | "held" | "replaced" | "ended" | "closed";

/** Gap is a range of missing numbers in a channel. */
export interface Gap {
  channel: string;
  from: number;
  to: number;
}

export interface SocketHandlers {
  /** Each frame once, in the order of its channel. */
  onFrame: (frame: Frame) => void;
  /** The state has changed; retryAt is the time of the next attempt of a waiting socket. */
  onState?: (state: SocketState, retryAt?: number) => void;
  /** The frames after the resume position have expired: read the stored messages; new frames follow. */
  onReset?: () => void;
  /** Frames are missing. */
  onGap?: (gap: Gap) => void;
}

export interface SocketOptions {
  channels?: string[];
  /** The last numbers seen, by channel; 0 requests all stored frames. Without it only new frames are received. */
  resume?: Record<string, number>;
  /** Disconnect the client that holds the session. */
  takeover?: boolean;
  /** Show terminals only: the socket receives no frames and does not hold the session. */
  terminalsOnly?: boolean;
  /** The maximum pause between attempts, in milliseconds. */
  maxDelay?: number;
}

/** Refusal is the payload of control error. */
interface Refusal {
  code?: string;
  message?: string;
  details?: Record<string, unknown>;
}

/** SessionSocket receives the frames of one session. After an interruption it resumes after the last frame it has seen. */
export class SessionSocket {
  readonly seen: Record<string, number>;
  private state: SocketState = "connecting";
  /** The state while it waits for the next attempt. */
  private waits: "waiting" | "held" = "waiting";
  private welcome = false;
  private closing = "";
  private takeover: boolean;
  private readonly channels: string[];
  private readonly terminals = new Map<string, Terminal>();
  private readonly line: Line;

  constructor(
    private readonly client: Client,
    readonly sessionId: string,
    private readonly handlers: SocketHandlers,
    private readonly options: SocketOptions = {},
  ) {
    this.channels = options.terminalsOnly ? [] : (options.channels ?? ["output", "events"]);
    this.seen = { ...options.resume };
    this.takeover = options.takeover ?? false;
    this.line = new Line(client, {
      path: () => {
        const query = options.terminalsOnly ? "?terminals=1" : this.takeover ? "?takeover=1" : "";
        return `/api/v1/sessions/${encodeURIComponent(sessionId)}/socket${query}`;
      },
      entered: (state, retryAt) => {
        if (state === "connecting") {
          this.waits = "waiting";
          this.closing = "";
          this.welcome = false;
        }
        if (state !== "over") this.enter(state === "waiting" ? this.waits : state, retryAt);
      },
      opened: () => this.line.send("hello", { resume_from_seq: this.seen }),
      text: (data) => this.take(JSON.parse(data)),
      binary: (data) => this.takeBinary(data),
      lost: (code) => void this.lost(code),
    }, options.maxDelay);
    void this.line.connect();
  }

  /** close ends the socket; it does not reconnect. */
  close(): void {
    this.stop("closed");
  }

  /** retryNow reconnects without waiting. */
  retryNow(): void {
    this.line.retryNow();
  }

  /** takeOver disconnects the client that holds the session, and holds it here. */
  takeOver(): void {
    this.takeover = true;
    void this.line.connect();
  }

  /**
   * terminal returns the terminal of a background process of the session. It is subscribed again after each interruption, from the last
   * byte on. A process has one terminal per socket: a second call replaces the first one's terminal.
   */
  terminal(processId: string, handlers: TerminalHandlers, offset = 0): Terminal {
    this.terminals.get(processId)?.close();
    const terminal = new Terminal(
      {
        control: (type, payload) => this.state === "live" && this.line.send(type, payload),
        binary: (data) => this.line.sendBinary(data),
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
    if (state === "replaced") this.line.rest();
    else this.line.close();
    this.enter(state);
  }

  private welcomed(server: Record<string, number>): void {
    this.welcome = true;
    this.takeover = false;
    for (const channel of this.channels) this.seen[channel] ??= server[channel] ?? 0;
    if (this.channels.length) this.line.send("subscribe", { channels: this.channels });
    this.line.welcomed();
    for (const terminal of [...this.terminals.values()]) terminal.subscribe();
  }

  private take(frame: Frame & { type: string; payload: { code?: string } }): void {
    if (frame.channel === "control") {
      if ((frame.type as string) === "welcome") this.welcomed((frame.payload as { server_seq?: Record<string, number> }).server_seq ?? {});
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

  private async lost(code: number): Promise<void> {
    switch (this.closing) {
      case "session_ended":
        return this.stop("ended");
      case "replaced":
        return this.stop("replaced");
      case "resume_failed":
        for (const channel of Object.keys(this.seen)) delete this.seen[channel];
        this.handlers.onReset?.();
        this.line.soon();
        break;
    }
    if (!this.welcome && code !== 1008 && this.state === "connecting" && !this.closing) {
      // A browser hides the reason of a refused handshake, so the session is read. The CSRF token may be outdated.
      this.client.forget();
      try {
        const session = await this.client.call("GET /api/v1/sessions/{id}", { id: this.sessionId });
        if (this.line.state === "over") return;
        if (session.state === "ended") return this.stop("ended");
        this.waits = "held";
      } catch (error) {
        if (error instanceof KagedError && error.status === 404) return this.stop("ended");
      }
    }
    this.line.later();
  }
}
