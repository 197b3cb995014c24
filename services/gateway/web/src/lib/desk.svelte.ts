import type { SystemFrame } from "@kaged/client";
import { kaged } from "./api";

/** Wanted reports whether a frame affects a view. */
export type Wanted = (frame: SystemFrame) => boolean;

/** Desk notifies views of changes, by the page's one system socket. While the socket is not live, views poll. */
class Desk {
  live = $state(false);
  private readonly views = new Map<() => void, Wanted>();
  private started = false;

  start(): void {
    if (this.started) return;
    this.started = true;
    kaged.system({
      onState: (state) => {
        const was = this.live;
        this.live = state === "live";
        if (was && !this.live) this.all();
      },
      onMissed: () => this.all(),
      onFrame: (frame) => {
        for (const [read, wanted] of this.views) if (wanted(frame)) read();
      },
    });
  }

  private all(): void {
    for (const read of this.views.keys()) read();
  }

  /** on calls read after each wanted change, and when changes may have been missed. */
  on(wanted: Wanted, read: () => void): () => void {
    this.views.set(read, wanted);
    return () => this.views.delete(read);
  }
}

export const desk = new Desk();

/** soon returns a function that calls read once after a short delay, and at most once per every milliseconds. */
export function soon(read: () => unknown, every: number): () => void {
  let last = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      last = performance.now();
      void read();
    }, Math.max(40, last + every - performance.now()));
  };
}
