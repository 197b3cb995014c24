import { KagedError } from "./client.js";

/** PtyPosition tells the number of the next byte: before the first one, and wherever bytes are missing. */
export interface PtyPosition {
  process_id: string;
  offset: number;
  /** Bytes before offset that are not kept any more. */
  missing: number;
  /** Bytes before this number were written before the subscription. */
  replay_end: number;
  /** Without a terminal the process's input is a pipe, and it cannot be resized. */
  terminal: boolean;
}

/** PtyEnded tells the end of the process: no byte follows. */
export interface PtyEnded {
  process_id: string;
  /** null if its end was not seen, as when the workspace was restarted. */
  exit_code: number | null;
  signal: string;
  /** timeout, cancelled, owner_ended, lost, oom, pids, walltime, disk or seccomp; "" if it ended by itself. */
  reason: string;
  offset: number;
  duration_ms: number;
}

export interface TerminalHandlers {
  /**
   * What the process wrote, cut anywhere, also inside a character. A replay was written before: answers of a terminal emulator to it
   * must not be sent as input.
   */
  onData: (data: Uint8Array, replay: boolean) => void;
  /** Where the output goes on; with missing > 0 the screen is no longer whole. */
  onPosition?: (position: PtyPosition) => void;
  /** The process has ended, and with it the terminal. */
  onEnd?: (end: PtyEnded) => void;
  /** Input or a size was refused, or, if the terminal is closed, the terminal itself. */
  onError?: (error: KagedError) => void;
}

/** What a terminal needs of its socket. */
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

/** Terminal shows one background process of a session and types on it. It outlives interruptions of its socket. */
export class Terminal {
  readonly channel: string;
  /** The number of the next byte. */
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

  /** write types on the process. It returns false while the socket is away: the input is lost. */
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

  /** close ends the subscription; the process goes on. */
  close(): void {
    if (this.closed) return;
    this.end();
    this.line.control("unsubscribe", { channels: [this.channel] });
  }

  /** subscribe asks for what comes from offset on. Its socket calls it after each welcome. */
  subscribe(): void {
    this.line.control("subscribe", { channels: [this.channel], addressed: true, offsets: { [this.channel]: this.offset } });
    if (this.size) this.line.control("pty.resize", { process_id: this.processId, ...this.size });
  }

  /** data takes output. */
  data(data: Uint8Array): void {
    const replay = this.offset < this.replayEnd;
    const old = replay ? data.subarray(0, this.replayEnd - this.offset) : data.subarray(0, 0);
    const fresh = data.subarray(old.length);
    this.offset += data.length;
    if (old.length) this.handlers.onData(old, true);
    if (fresh.length) this.handlers.onData(fresh, false);
  }

  /** event takes a control event. */
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

  /** refused takes an error of control. */
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

/** parseBinary reads a binary frame that names its process; undefined for any other. */
export function parseBinary(buffer: ArrayBuffer): BinaryFrame | undefined {
  const bytes = new Uint8Array(buffer);
  const kind = bytes[0];
  if (bytes.length < headLength || (kind !== addressedData && kind !== addressedEvent)) return undefined;
  return { processId: new TextDecoder().decode(bytes.subarray(1, headLength)), data: bytes.subarray(headLength), event: kind === addressedEvent };
}
