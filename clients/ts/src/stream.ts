import type { Client } from "./client.js";
import { KagedError } from "./client.js";
import type { Frame } from "./socket.js";

/** StreamState is the state of a stream; waiting means that it waits for the next attempt. */
export type StreamState = "connecting" | "live" | "waiting" | "ended" | "closed";

export interface StreamHandlers {
  /** Each frame once, in the order of its channel. */
  onFrame: (frame: Frame) => void;
  onState?: (state: StreamState) => void;
  /** The frames after the resume position have expired: read the stored messages; new frames follow. */
  onReset?: () => void;
}

const firstDelay = 500;
const maxDelay = 8_000;

/** SessionStream receives the frames of a session as server-sent events. It does not hold the session, so any number of streams may be open. */
export class SessionStream {
  private state: StreamState = "connecting";
  private delay = firstDelay;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private abort: AbortController | null = null;

  /** place is the id of the last event seen; output:0,events:0 requests all stored frames, "" only new ones. */
  constructor(
    private readonly client: Client,
    readonly sessionId: string,
    private readonly handlers: StreamHandlers,
    private place = "",
  ) {
    void this.read();
  }

  /** close ends the stream; it does not reconnect. */
  close(): void {
    this.enter("closed");
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  private enter(state: StreamState): void {
    this.state = state;
    this.handlers.onState?.(state);
  }

  private over = () => this.state === "closed" || this.state === "ended";

  private async read(): Promise<void> {
    const abort = (this.abort = new AbortController());
    this.enter("connecting");
    let closing = "";
    try {
      const answer = await this.client.events(this.sessionId, this.place, abort.signal);
      if (this.over() || !answer.body) return;
      this.enter("live");
      this.delay = firstDelay;
      closing = await this.take(answer.body);
    } catch (error) {
      if (this.over()) return;
      if (error instanceof KagedError && [404, 410].includes(error.status)) closing = "session_ended";
    }
    if (this.over()) return;
    if (closing === "session_ended") return this.enter("ended");
    if (closing === "resume_failed") {
      this.place = "";
      this.handlers.onReset?.();
    }
    this.timer = setTimeout(() => void this.read(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, maxDelay);
    this.enter("waiting");
  }

  /** take reads events to the end of the stream, and returns the code of its closing event. */
  private async take(body: ReadableStream<Uint8Array>): Promise<string> {
    const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.over()) return "";
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        let id = "", type = "", data = "";
        for (const line of event.split("\n")) {
          if (line.startsWith("id: ")) id = line.slice(4);
          else if (line.startsWith("event: ")) type = line.slice(7);
          else if (line.startsWith("data: ")) data += line.slice(6);
        }
        if (!data) continue;
        const frame = JSON.parse(data);
        if (type === "closing") return frame.payload?.code ?? frame.code ?? "closed";
        if (id) this.place = id;
        this.handlers.onFrame(frame as Frame);
      }
    }
  }
}
