import type { Approval, Invocation, Run, RunStep } from "@kaged/client";
import { agentName } from "./format";

export type SpanKind = "model" | "tools" | "agent" | "ask";

/** Span is an interval of a run. */
export interface Span {
  key: string;
  lane: string;
  kind: SpanKind;
  from: number;
  to: number;
  text: string;
  tokens: number | null;
  cost: number | null;
}

export interface Lane { name: string; depth: number; spans: Span[] }

/** spansOf returns the intervals of one agent: model calls, and the tool calls between them. */
function spansOf(lane: string, key: string, steps: RunStep[], began: number, ended: number): Span[] {
  const spans: Span[] = [];
  let at = began;
  for (const step of steps) {
    const to = Math.min(Math.max(step.created_at, at), ended);
    const from = Math.max(at, to - (step.stats?.duration ?? 0));
    const usage = step.usage;
    spans.push({
      key: `${key}/${step.step}`, lane, kind: "model", from, to, text: `step ${step.step}, ${step.provider}:${step.model}`,
      tokens: usage ? usage.input + usage.cache_read + usage.cache_write + usage.output : null, cost: step.stats?.cost?.total ?? null,
    });
    const calls = step.parts.filter((part) => part.type === "tool_call").map((part) => part.name ?? "");
    const next = steps.find((one) => one.step === step.step + 1);
    const until = next ? Math.max(to, next.created_at - (next.stats?.duration ?? 0)) : ended;
    if (calls.length) spans.push({ key: `${key}/${step.step}/tools`, lane, kind: "tools", from: to, to: until, text: calls.join(", "), tokens: null, cost: null });
    at = until;
  }
  return spans;
}

/** lanesOf returns a lane for each agent of a run, parents before children. Waiting for an operator is shown in the agent's lane. */
export function lanesOf(run: Run, children: Invocation[], approvals: Approval[], now: number): { lanes: Lane[]; from: number; to: number } {
  const from = run.started_at ?? run.created_at;
  const to = Math.max(run.ended_at ?? now, from + 1);
  const lanes: Lane[] = [{ name: "primary", depth: 0, spans: spansOf("primary", run.id, run.steps, from, to) }];
  const below = new Map<string, Invocation[]>();
  for (const one of children) {
    const parent = one.parent_invocation_id ?? "";
    below.set(parent, [...(below.get(parent) ?? []), one]);
  }
  const byInvocation = new Map<string, Lane>();
  const walk = (parent: string, depth: number) => {
    for (const one of below.get(parent) ?? []) {
      const end = one.ended_at ?? to;
      const lane: Lane = { name: agentName(one.agent_path), depth, spans: [] };
      const inner = spansOf(lane.name, one.invocation_id, one.run_steps, one.started_at, end);
      lane.spans = inner.length ? inner : [{ key: one.invocation_id, lane: lane.name, kind: "agent", from: one.started_at, to: end, text: one.state, tokens: one.tokens_in + one.tokens_out, cost: one.cost_usd }];
      lanes.push(lane);
      byInvocation.set(one.invocation_id, lane);
      walk(one.invocation_id, depth + 1);
    }
  };
  walk("", 1);
  for (const one of approvals) {
    if (one.run_id !== run.id) continue;
    const lane = byInvocation.get(one.invocation_id ?? "") ?? lanes[0]!;
    lane.spans.push({ key: one.id, lane: lane.name, kind: "ask", from: one.requested_at, to: one.resolved_at ?? to, text: `${one.subject?.tool ?? "a call"} waited for an answer: ${one.state}`, tokens: null, cost: null });
  }
  for (const lane of lanes) lane.spans.sort((a, b) => a.from - b.from);
  return { lanes, from, to };
}
