// Long work is done in slices, between which the browser takes input and draws frames.

/** The longest slice, in milliseconds. */
const longest = 6;
/** The longest wait for idle time, in milliseconds. */
const patience = 100;

const channel = new MessageChannel();
const waiting: Array<() => void> = [];
channel.port1.onmessage = () => waiting.shift()?.();

/** nextTask resolves in a task of its own. */
export function nextTask(): Promise<void> {
  return new Promise((done) => {
    waiting.push(done);
    channel.port2.postMessage(0);
  });
}

/** idle resolves between two frames with the time that is left until the next one. */
function idle(): Promise<number> {
  if (!("requestIdleCallback" in globalThis)) return nextTask().then(() => longest);
  return new Promise((done) => requestIdleCallback((deadline) => done(deadline.timeRemaining()), { timeout: patience }));
}

/** inSlices does a work piece by piece in idle time. It ends early once over returns true. */
export async function inSlices(work: Iterator<unknown>, over: () => boolean): Promise<void> {
  for (;;) {
    const left = await idle();
    const until = performance.now() + Math.min(longest, left);
    do if (over() || work.next().done) return;
    while (performance.now() < until);
  }
}
