import { Client, KagedError } from "@kaged/client";
import { daemon } from "./daemon.svelte";

/** kaged is the client of the daemon that served this page. */
export const kaged = new Client({ onAnswer: (answer) => daemon.answered(answer) });

export type { Answer } from "@kaged/client";
export { KagedError };

/** sentence returns an error's message for display. */
export function sentence(error: unknown): string {
  if (error instanceof KagedError) {
    const { reason, running_count: running, limit } = error.details ?? {};
    if (error.code !== "conflict" || running === undefined || limit === undefined) return error.message;
    return `${running} of ${limit} sessions ${reason === "per_project" ? "of the project" : "of yours"} are at work. Stop one, or wait until one ends.`;
  }
  return error instanceof Error ? error.message : String(error);
}
