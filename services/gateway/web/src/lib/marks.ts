import { tick } from "svelte";

let marked = false;
let begun = false;
let waiting: Array<() => void> = [];
/** The longest wait for the first view, in milliseconds. */
const longest = 2000;

/** Whether the views are mounted, and whether the first one has its data. */
let mounted = false;
let ready = false;

/** viewsMounted tells that the views are mounted. */
export function viewsMounted(): void {
  mounted = true;
  if (ready) interactive();
}

/** interactive marks when the first view could be used, for measurements, and begins what waited for it. */
export function interactive(): void {
  ready = true;
  if (marked || !mounted) return;
  marked = true;
  void tick().then(() => {
    performance.mark("kaged:interactive");
    setTimeout(begin);
  });
}

function begin(): void {
  begun = true;
  const list = waiting;
  waiting = [];
  for (const one of list) one();
}

/** afterInteractive calls f once the first view can be used, at the latest after two seconds. */
export function afterInteractive(f: () => void): void {
  if (begun) f();
  else if (waiting.push(f) === 1) setTimeout(begin, longest);
}
