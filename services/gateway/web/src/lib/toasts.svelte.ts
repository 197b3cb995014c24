import { sentence } from "./api";

export interface Toast { id: number; text: string; tone: "good" | "bad" }

let next = 0;
export const toasts = $state<{ list: Toast[] }>({ list: [] });

export function toast(text: string, tone: Toast["tone"] = "good"): void {
  const id = ++next;
  toasts.list = [...toasts.list.slice(-3), { id, text, tone }];
  setTimeout(() => (toasts.list = toasts.list.filter((one) => one.id !== id)), tone === "bad" ? 12_000 : 5_000);
}

/** attempt runs a request and shows a toast with its error, or with done on success. It returns undefined after an error. */
export async function attempt<T>(what: () => Promise<T>, done?: string): Promise<T | undefined> {
  try {
    const result = await what();
    if (done) toast(done);
    return result;
  } catch (error) {
    toast(sentence(error), "bad");
    return undefined;
  }
}
