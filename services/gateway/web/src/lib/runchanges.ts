import type { RunStep } from "@kaged/client";
import { kaged } from "./api";
import { parse } from "./diff";
import type { Change } from "./review";
import { resultOf, text } from "./tools";
import { blocksOf } from "./blocks";

/** changesOfRun returns the changes by file tools in one run, of agents at every depth. Changes by commands are only in the session's sum. */
export async function changesOfRun(session: string, run: string): Promise<Change[]> {
  const found = new Map<string, Change>();
  const take = async (agent: string, steps: RunStep[]) => {
    for (const block of blocksOf(steps.flatMap((step) => step.parts), agent, run)) {
      if (block.kind !== "tool" || block.call.isError) continue;
      let { call } = block;
      if (call.cut) {
        const whole = await kaged.call("GET /api/v1/sessions/{session_id}/runs/{run_id}/tool-results/{tool_call_id}", { session_id: session, run_id: run, tool_call_id: call.id });
        call = { ...call, output: whole.output ?? call.output };
      }
      const diff = text(resultOf(call)["diff"]);
      for (const part of diff ? parse(diff) : []) add(found, agent, part.path, diff, part.added, part.removed);
    }
  };
  const whole = await kaged.call("GET /api/v1/sessions/{session_id}/runs/{run_id}", { session_id: session, run_id: run });
  await take("primary", whole.steps);
  for (const one of whole.subagent_invocations) {
    const child = await kaged.call("GET /api/v1/sessions/{session_id}/invocations/{invocation_id}", { session_id: session, invocation_id: one.invocation_id });
    await take(one.agent_path, child.run_steps);
  }
  return [...found.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function add(found: Map<string, Change>, agent: string, path: string, diff: string, added: number, removed: number): void {
  const before = found.get(path) ?? { path, from: "", kind: "modified", origin: "tool", agents: [], added: 0, removed: 0, diff: "", no_diff: null };
  const own = only(diff, path);
  found.set(path, {
    ...before, agents: before.agents.includes(agent) ? before.agents : [...before.agents, agent],
    added: (before.added ?? 0) + added, removed: (before.removed ?? 0) + removed, diff: before.diff + own,
  });
}

/** only returns the part of a diff for one file. */
function only(diff: string, path: string): string {
  const files = parse(diff);
  if (files.length <= 1) return diff.endsWith("\n") ? diff : diff + "\n";
  const file = files.find((one) => one.path === path);
  const marks: Record<string, string> = { add: "+", del: "-", same: " " };
  return `--- a/${path}\n+++ b/${path}\n` + (file?.lines ?? []).map((line) => (marks[line.kind] ?? "") + line.text).join("\n") + "\n";
}
