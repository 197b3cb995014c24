import type { SystemFrame } from "@kaged/client";
import { kaged } from "./api";

/** Wanted says whether a frame changes what is shown. */
export type Wanted = (frame: SystemFrame) => boolean;

/** Desk tells views of changes anywhere, by the one system socket of the page. While it is not live, views ask every so often. */
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

  /** on calls read after each change that is wanted, and whenever changes may have been missed. */
  on(wanted: Wanted, read: () => void): () => void {
    this.views.set(read, wanted);
    return () => this.views.delete(read);
  }
}

export const desk = new Desk();

/** soon returns a function that calls read a little later, however often it is called until then, and at most every so many milliseconds. */
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
