import type { Block, Log, ToolCall, Transcript, Turn } from "./transcript";

export type Row =
  | { key: string; kind: "turn"; turn: Turn; n: number }
  | { key: string; kind: "block"; block: Block; live: boolean; turn: number }
  | { key: string; kind: "group"; calls: ToolCall[]; turn: number }
  | { key: string; kind: "wait"; text: string; turn: number }
  | { key: string; kind: "end"; log: Log; turn: number };

/** Density says how much is shown: what was said, the usual, or everything. */
export type Density = "talk" | "normal" | "all";

/** rowsOf lays a session's conversation out. */
export function rowsOf(t: Transcript, density: Density): Row[] {
  const byRun = new Map<string, Log[]>();
  for (const log of t.logs.values()) byRun.set(log.runId, [...(byRun.get(log.runId) ?? []), log]);
  const rows: Row[] = [];
  t.turns.forEach((turn, i) => {
    rows.push({ key: turn.key, kind: "turn", turn, n: i + 1 });
    if (!turn.runId) return;
    for (const block of t.notices.get(turn.runId) ?? []) rows.push({ key: block.key, kind: "block", block, live: false, turn: i + 1 });
    for (const log of byRun.get(turn.runId) ?? []) logRows(log, density, i + 1, rows);
    byRun.delete(turn.runId);
  });
  for (const logs of byRun.values()) for (const log of logs) logRows(log, density, t.turns.length, rows);
  return rows;
}

/** logRows lays out what one agent did. */
export function logRows(log: Log, density: Density, turn: number, rows: Row[] = []): Row[] {
  const last = log.blocks.length - 1;
  let group: ToolCall[] = [];
  let groupKey = "";
  const flush = () => {
    if (group.length > 3) rows.push({ key: `${groupKey}/group`, kind: "group", calls: group, turn });
    else for (const call of group) rows.push({ key: `${groupKey}/${call.id}`, kind: "block", block: { kind: "tool", key: groupKey, call }, live: false, turn });
    group = [];
  };
  log.blocks.forEach((block, i) => {
    if (block.kind === "tool") {
      const { call } = block;
      const quiet = call.output !== null && !call.isError;
      if (density === "talk" && quiet) return;
      if (density === "normal" && quiet && foldable(call.name)) {
        groupKey ||= block.key;
        if (group.length === 0) groupKey = block.key;
        group.push(call);
        return;
      }
    }
    flush();
    if (block.kind === "thinking" && density === "talk") return;
    rows.push({ key: block.key, kind: "block", block, live: log.live && i === last, turn });
  });
  flush();
  if (log.live && (last < 0 || log.blocks[last]!.kind === "tool" && (log.blocks[last] as { call: ToolCall }).call.output !== null)) {
    rows.push({ key: `${log.key}/wait`, kind: "wait", text: log.model ? `waiting for ${log.model}` : "starting", turn });
  }
  if (!log.live && log.blocks.length + log.error.length > 0) rows.push({ key: `${log.key}/end`, kind: "end", log, turn });
  return rows;
}

/** foldable tools only read: many of them in a row are one line. */
const foldable = (name: string) => /^(file\.(read|list)|search\.|code\.lsp$|memory\.)/.test(name);
