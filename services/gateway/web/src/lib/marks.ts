import { tick } from "svelte";

let marked = false;

/** interactive marks when the first view could be used, for measurements. */
export function interactive(): void {
  if (marked) return;
  marked = true;
  void tick().then(() => performance.mark("kaged:interactive"));
}
