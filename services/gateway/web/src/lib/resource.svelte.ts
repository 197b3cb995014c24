import { desk, soon, type Wanted } from "./desk.svelte";

/** Again says when a resource is read again besides after a change of its own. */
export interface Again {
  /** Every so many milliseconds. */
  every?: number;
  /** After changes that the system socket tells; every counts then only while that is away. */
  on?: Wanted;
}

/** Resource is an answer that is read again: after changes, every so often, and when the page is looked at. */
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

/** use makes a resource that ends with its component. */
export function use<T>(ask: () => Promise<T>, again: Again = {}): Resource<T> {
  const resource = new Resource(ask, again);
  $effect(() => () => resource.close());
  return resource;
}
