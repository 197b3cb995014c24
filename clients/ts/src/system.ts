import type { Client } from "./client.js";
import { Line } from "./line.js";
import type { SystemFrames } from "./types.gen.js";

/** SystemFrame is a notice of a change, with its payload by its type. */
export type SystemFrame = { [T in keyof SystemFrames]: { channel: "system"; seq: number; type: T; payload: SystemFrames[T] } }[keyof SystemFrames];

/** SystemState is the state of a system socket; waiting means that it waits for the next attempt. */
export type SystemState = "connecting" | "live" | "waiting" | "closed";

export interface SystemHandlers {
  /** A change. After a new connection, and after system.missed, onMissed is called instead. */
  onFrame: (frame: SystemFrame) => void;
  /** Changes may have been missed: read the shown data again. Called at each new connection and for system.missed. */
  onMissed?: () => void;
  onState?: (state: SystemState) => void;
}

/** SystemSocket receives notices about the operator's sessions, projects, approvals and issues. It reconnects after interruptions. */
export class SystemSocket {
  private seq = 0;
  private readonly line: Line;

  constructor(
    client: Client,
    private readonly handlers: SystemHandlers,
    maxDelay?: number,
  ) {
    this.line = new Line(client, {
      path: () => "/api/v1/socket",
      entered: (state) => {
        if (state === "connecting") this.seq = 0;
        handlers.onState?.(state === "over" ? "closed" : state);
      },
      text: (data) => this.take(JSON.parse(data)),
      lost: () => {
        // The CSRF token may be outdated.
        if (this.line.state === "connecting") client.forget();
        this.line.later();
      },
    }, maxDelay);
    void this.line.connect();
  }

  /** close ends the socket; it does not reconnect. */
  close(): void {
    this.line.close();
  }

  /** retryNow reconnects without waiting. */
  retryNow(): void {
    this.line.retryNow();
  }

  private take(frame: { channel: string; seq: number; type: string }): void {
    if (frame.channel !== "system") return;
    const missed = frame.seq !== this.seq + 1 || frame.type === "system.missed";
    this.seq = frame.seq;
    if (frame.type === "system.hello") {
      this.line.welcomed();
      this.handlers.onMissed?.();
    } else if (missed) this.handlers.onMissed?.();
    this.handlers.onFrame(frame as SystemFrame);
  }
}
