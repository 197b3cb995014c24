import { Client, KagedError } from "@kaged/client";
import { daemon } from "./daemon.svelte";

/** kaged is the client of the daemon that served this page. */
export const kaged = new Client({ onAnswer: (answer) => daemon.answered(answer) });

export type { Answer } from "@kaged/client";
export { KagedError };

/** sentence returns an error's message for display. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
