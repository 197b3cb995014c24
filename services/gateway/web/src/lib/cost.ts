import type { AgentUse } from "@kaged/client";
import { count, money } from "./format";
import type { Agent } from "./transcript";

/** costText says what model calls used: money where a price is known, else tokens; "" before the first one. */
export function costText(use: { usd: number; tokens: number } | undefined): string {
  if (!use || !use.tokens && !use.usd) return "";
  return use.usd ? money(use.usd) : `${count(use.tokens)} tokens`;
}

/** total sums what agents used, calls of a run at work included. */
export function total(uses: AgentUse[]): { usd: number; tokens: number } {
  return uses.reduce((sum, one) => ({ usd: sum.usd + one.usd, tokens: sum.tokens + one.tokens }), { usd: 0, tokens: 0 });
}

const atWork = (one: Agent) => one.state === "pending" || one.state === "running";

/** agentCost says what an invocation has used. Of one at work, it is the use of its agent without that of the invocations that ended. */
export function agentCost(agent: Agent, agents: Agent[], uses: AgentUse[]): string {
  const of = (one: Agent) => ({ usd: one.cost_usd ?? 0, tokens: (one.tokens_in ?? 0) + (one.tokens_out ?? 0) });
  if (!atWork(agent)) return costText(of(agent));
  const same = agents.filter((one) => one.agent_path === agent.agent_path);
  const live = same.filter(atWork).length;
  const left = { ...(uses.find((one) => one.agent_path === agent.agent_path) ?? { usd: 0, tokens: 0 }) };
  for (const one of same) {
    if (atWork(one)) continue;
    left.usd = Math.max(0, left.usd - of(one).usd);
    left.tokens = Math.max(0, left.tokens - of(one).tokens);
  }
  // Rounding leaves no money behind.
  if (left.usd < 1e-7) left.usd = 0;
  const text = costText(left);
  return text && live > 1 ? `${text} by ${live}` : text;
}
