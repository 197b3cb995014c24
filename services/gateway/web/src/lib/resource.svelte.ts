/** Resource is an answer that is read again: every so often, after a change, and when the page is looked at. */
export class Resource<T> {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<unknown>(null);
  loading = $state(true);
  private timer: ReturnType<typeof setInterval> | undefined;
  private turn = 0;
  private readonly seen = () => document.hidden || void this.read();

  constructor(private readonly ask: () => Promise<T>, every = 0) {
    if (every) this.timer = setInterval(this.seen, every);
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
    document.removeEventListener("visibilitychange", this.seen);
  }
}

/** use makes a resource that ends with its component. */
export function use<T>(ask: () => Promise<T>, every = 0): Resource<T> {
  const resource = new Resource(ask, every);
  $effect(() => () => resource.close());
  return resource;
}
