import { KagedError } from "./client.js";

/** PtyPosition has the offset of the next byte. It precedes the first byte and every gap. */
export interface PtyPosition {
  process_id: string;
  offset: number;
  /** The number of missing bytes before offset. */
  missing: number;
  /** Bytes before this offset were written before the subscription. */
  replay_end: number;
  /** Without a terminal the process's input is a pipe, and it cannot be resized. */
  terminal: boolean;
}

/** PtyEnded is the end of the process: no byte follows. */
export interface PtyEnded {
  process_id: string;
  /** null if it is unknown, as after a restart of the workspace. */
  exit_code: number | null;
  signal: string;
  /** timeout, cancelled, owner_ended, lost, oom, pids, walltime, disk or seccomp; "" if it ended by itself. */
  reason: string;
  offset: number;
  duration_ms: number;
}

export interface TerminalHandlers {
  /**
   * Output of the process, cut anywhere, also inside a character. A replay was written before the subscription: replies of a terminal emulator to it
   * must not be sent as input.
   */
  onData: (data: Uint8Array, replay: boolean) => void;
  /** The position of the next output; with missing > 0 the screen is incomplete. */
  onPosition?: (position: PtyPosition) => void;
  /** The process and the terminal have ended. */
  onEnd?: (end: PtyEnded) => void;
  /** Input or a size was refused; if the terminal is closed, the subscription was refused. */
  onError?: (error: KagedError) => void;
}

/** The functions that a terminal needs of its socket. */
export interface TerminalLine {
  control(type: string, payload: unknown): unknown;
  binary(data: Uint8Array): boolean;
  forget(terminal: Terminal): void;
}

const addressedData = 0x11;
const addressedEvent = 0x12;
const headLength = 27;
/** The longest input of one frame; the daemon takes frames up to 64 KiB. */
const maxInput = 32 << 10;

/** Terminal is the terminal of one background process of a session. It survives interruptions of its socket. */
export class Terminal {
  readonly channel: string;
  /** The offset of the next byte. */
  offset: number;
  closed = false;
  private replayEnd = 0;
  private size: { cols: number; rows: number } | null = null;

  constructor(
    private readonly line: TerminalLine,
    readonly processId: string,
    private readonly handlers: TerminalHandlers,
    offset = 0,
  ) {
    this.channel = `pty:${processId}`;
    this.offset = offset;
  }

  /** write sends input to the process. It returns false, and drops the input, while the socket is disconnected. */
  write(input: string | Uint8Array): boolean {
    if (this.closed) return false;
    const data = typeof input === "string" ? new TextEncoder().encode(input) : input;
    for (let at = 0; at < data.length; at += maxInput) {
      const part = data.subarray(at, at + maxInput);
      const frame = new Uint8Array(headLength + part.length);
      frame[0] = addressedData;
      frame.set(new TextEncoder().encode(this.processId), 1);
      frame.set(part, headLength);
      if (!this.line.binary(frame)) return false;
    }
    return true;
  }

  /** resize sets the size of the process's terminal, which all windows share; it is sent again after an interruption. */
  resize(cols: number, rows: number): void {
    if (this.closed) return;
    this.size = { cols, rows };
    this.line.control("pty.resize", { process_id: this.processId, cols, rows });
  }

  /** close ends the subscription; the process continues. */
  close(): void {
    if (this.closed) return;
    this.end();
    this.line.control("unsubscribe", { channels: [this.channel] });
  }

  /** subscribe subscribes from offset on. The socket calls it after each welcome. */
  subscribe(): void {
    this.line.control("subscribe", { channels: [this.channel], addressed: true, offsets: { [this.channel]: this.offset } });
    if (this.size) this.line.control("pty.resize", { process_id: this.processId, ...this.size });
  }

  /** data handles output. */
  data(data: Uint8Array): void {
    const replay = this.offset < this.replayEnd;
    const old = replay ? data.subarray(0, this.replayEnd - this.offset) : data.subarray(0, 0);
    const fresh = data.subarray(old.length);
    this.offset += data.length;
    if (old.length) this.handlers.onData(old, true);
    if (fresh.length) this.handlers.onData(fresh, false);
  }

  /** event handles a control event. */
  event(type: string, payload: unknown): void {
    if (type === "pty.position") {
      const position = payload as PtyPosition;
      this.offset = position.offset;
      this.replayEnd = position.replay_end;
      this.handlers.onPosition?.(position);
    } else if (type === "pty.ended") {
      this.end();
      this.handlers.onEnd?.(payload as PtyEnded);
    }
  }

  /** refused handles an error on control. */
  refused(error: KagedError): void {
    if (error.details["subscribed"] === false) this.end();
    this.handlers.onError?.(error);
  }

  private end(): void {
    this.closed = true;
    this.line.forget(this);
  }
}

/** BinaryFrame is a frame of a terminal: output, or an event. */
export interface BinaryFrame {
  processId: string;
  data: Uint8Array;
  event: boolean;
}

/** parseBinary parses a binary frame with a process id. It returns undefined for other frames. */
export function parseBinary(buffer: ArrayBuffer): BinaryFrame | undefined {
  const bytes = new Uint8Array(buffer);
  const kind = bytes[0];
  if (bytes.length < headLength || (kind !== addressedData && kind !== addressedEvent)) return undefined;
  return { processId: new TextDecoder().decode(bytes.subarray(1, headLength)), data: bytes.subarray(headLength), event: kind === addressedEvent };
}
