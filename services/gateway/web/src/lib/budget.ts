import type { BudgetLimit } from "@kaged/client";

/**
 * budgetWith returns a session's budget with another limit in US dollars, none for "", and null if no limit is left. A request replaces the
 * whole budget, so the other limits are part of it.
 */
export function budgetWith(limit: BudgetLimit | null | undefined, usd: string): BudgetLimit | null {
  const { usd: _, unpriced, ...rest } = limit ?? {};
  const limits: BudgetLimit = { ...rest, ...(usd ? { usd: Number(usd) } : {}) };
  return Object.keys(limits).length ? { ...limits, ...(unpriced ? { unpriced } : {}) } : null;
}
