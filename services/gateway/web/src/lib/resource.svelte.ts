import { desk, soon, type Wanted } from "./desk.svelte";

/** Again has the triggers for reading a resource again. */
export interface Again {
  /** The interval, in milliseconds. */
  every?: number;
  /** Changes reported by the system socket. With it, every applies only while the socket is not live. */
  on?: Wanted;
}

/** Resource is an answer that is kept fresh: it is read again after changes, at an interval, and when the page becomes visible. */
export class Resource<T> {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<unknown>(null);
  loading = $state(true);
  private timer: ReturnType<typeof setInterval> | undefined;
  private turn = 0;
  private readonly forget: () => void = () => {};
  private readonly seen = () => document.hidden || void this.read();

  constructor(private readonly ask: () => Promise<T>, again: Again = {}) {
    const { every = 0, on } = again;
    if (every) this.timer = setInterval(() => (on && desk.live) || this.seen(), every);
    if (on) this.forget = desk.on(on, soon(this.seen, 400));
    document.addEventListener("visibilitychange", this.seen);
    void this.read();
  }

  async read(): Promise<void> {
    const turn = ++this.turn;
    try {
      const data = await this.ask();
      if (turn !== this.turn) return;
      this.data = data;
      this.error = null;
    } catch (error) {
      if (turn === this.turn) this.error = error;
    }
    if (turn === this.turn) this.loading = false;
  }

  close(): void {
    this.turn++;
    clearInterval(this.timer);
    this.forget();
    document.removeEventListener("visibilitychange", this.seen);
  }
}

/** use returns a resource that is closed with its component. */
export function use<T>(ask: () => Promise<T>, again: Again = {}): Resource<T> {
  const resource = new Resource(ask, again);
  $effect(() => () => resource.close());
  return resource;
}
