import type { AuditEntry } from "@kaged/client";

/** Tried is what was tried on the network of one target, with one outcome. */
export interface Tried { key: string; target: string; rule: string; allowed: boolean; count: number; at: number }

/** triedOf joins the entries of one agent, or of all, by target and outcome, the newest first. */
export function triedOf(entries: AuditEntry[], agent?: string): Tried[] {
  const found = new Map<string, Tried>();
  for (const one of entries) {
    if (agent !== undefined && (one.agent_path ?? "") !== agent || !/^net\.(allowed|denied)$/.test(one.event_type)) continue;
    const { target, rule, count } = (one.payload ?? {}) as { target?: unknown; rule?: unknown; count?: unknown };
    const allowed = one.event_type === "net.allowed";
    const key = `${allowed} ${target}`;
    const n = typeof count === "number" ? count : 1;
    const known = found.get(key);
    if (known) known.count += n;
    else found.set(key, { key, target: String(target ?? ""), rule: String(rule ?? ""), allowed, count: n, at: one.ts });
  }
  return [...found.values()];
}
