import type { Client } from "./client.js";
import { Line } from "./line.js";
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

/** SystemSocket tells of the operator's sessions, projects, approvals and issues. It comes back after every interruption. */
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
        // The token may be of an old sign-in.
        if (this.line.state === "connecting") client.forget();
        this.line.later();
      },
    }, maxDelay);
    void this.line.connect();
  }

  /** close ends it for good. */
  close(): void {
    this.line.close();
  }

  /** retryNow does not wait for the next try. */
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
