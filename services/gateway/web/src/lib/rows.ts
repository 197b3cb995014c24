import { shown } from "./blocks";
import type { Block, Log, ToolCall, Transcript, Turn } from "./transcript";

type Shown = Exclude<Block, { kind: "said" }>;

export type Row = RowOf & {
  /** Its estimated height, once it was asked for. */
  high?: number;
};
type RowOf =
  | { key: string; kind: "turn"; turn: Turn; n: number; superseded: boolean; alwaysKeep: boolean }
  | { key: string; kind: "block"; block: Shown; live: boolean; turn: number }
  | { key: string; kind: "group"; calls: ToolCall[]; turn: number }
  | { key: string; kind: "wait"; text: string; turn: number }
  | { key: string; kind: "asked"; by: string; text: string; turn: number }
  | { key: string; kind: "end"; log: Log; turn: number };

/** Density is the level of detail: texts only, the default, or everything. */
export type Density = "talk" | "normal" | "all";

/** The rows of stored answers are cached by density. */
const laidOut = new WeakMap<Log, { density: Density; turn: number; rows: Row[] }>();
const turnRows = new WeakMap<Turn, Row>();
/**
 * A block is replaced when it changes: until then its row is the same, and is not drawn anew. Only the text of the last block grows in place:
 * its row is live and is drawn anew by the page's count of texts.
 */
const blockRows = new WeakMap<Shown, { row: Row & { kind: "block" }; size: number }>();
const sizeOf = (block: Shown) => ("text" in block ? block.text.length : 0);

function rowOfBlock(block: Shown, live: boolean, turn: number, key = block.key): Row {
  const known = blockRows.get(block), size = sizeOf(block);
  if (known && known.row.live === live && known.row.turn === turn && known.row.key === key && (live || known.size === size)) return known.row;
  const row = { key, kind: "block" as const, block, live, turn };
  blockRows.set(block, { row, size });
  return row;
}

function rowsOfLog(log: Log, density: Density, turn: number): Row[] {
  if (!log.stored) return logRows(log, density, turn);
  const known = laidOut.get(log);
  if (known?.density === density && known.turn === turn) return known.rows;
  const rows = logRows(log, density, turn);
  laidOut.set(log, { density, turn, rows });
  return rows;
}

function rowOfTurn(turn: Turn): Row {
  const known = turnRows.get(turn);
  if (known?.kind === "turn" && known.n === turn.n && known.superseded === turn.superseded && known.alwaysKeep === turn.alwaysKeep) return known;
  const row: Row = { key: turn.key, kind: "turn", turn, n: turn.n, superseded: turn.superseded, alwaysKeep: turn.alwaysKeep };
  turnRows.set(turn, row);
  return row;
}

const lastRows = new WeakMap<Transcript, { revision: number; density: Density; rows: Row[] }>();

/**
 * rowsOf returns the rows of a session's conversation: the stored entries in order, then the messages in progress. The list is the same until the
 * conversation changes.
 */
export function rowsOf(t: Transcript, density: Density): Row[] {
  const known = lastRows.get(t);
  if (known?.revision === t.revision && known.density === density) return known.rows;
  const rows = allRows(t, density);
  lastRows.set(t, { revision: t.revision, density, rows });
  return rows;
}

function allRows(t: Transcript, density: Density): Row[] {
  const rows: Row[] = [];
  const placed = new Set<Log>();
  let n = t.before;
  for (const entry of t.entries) {
    if ("turn" in entry) {
      n = entry.turn.n;
      // A steering message is shown inside its run's answer.
      if (t.within.size > 0 && t.within.has(entry.turn)) continue;
      rows.push(rowOfTurn(entry.turn));
      if (t.notices.size > 0) for (const block of t.notices.get(entry.turn.runId ?? "") ?? []) rows.push({ key: block.key, kind: "block", block, live: false, turn: n });
      continue;
    }
    const log = t.logs.get(entry.log);
    if (!log) continue;
    if (!log.stored) placed.add(log);
    for (const row of rowsOfLog(log, density, n)) rows.push(row);
  }
  // A stored log has an entry.
  for (const log of t.logs.values()) if (!log.stored && !placed.has(log)) for (const row of rowsOfLog(log, density, n)) rows.push(row);
  return rows;
}

/** Holds no key: a string that was looked up once keeps its hash, and later lookups take less time. */
const noKeys = new Set<string>();

/** prepare makes and estimates the rows of the first entries, so that drawing them takes less time. */
export function prepare(t: Transcript, entries: number, density: Density): void {
  let n = t.before;
  for (const entry of t.entries.slice(0, entries)) {
    if ("turn" in entry) n = entry.turn.n;
    const log = "log" in entry ? t.logs.get(entry.log) : undefined;
    const rows = "turn" in entry ? [rowOfTurn(entry.turn)] : log ? rowsOfLog(log, density, n) : [];
    for (const row of rows) {
      height(row);
      noKeys.has(row.key);
    }
  }
}

/** height estimates the height of a row before it is drawn, in pixels. */
export function height(row: Row): number {
  return (row.high ??= estimate(row));
}

function estimate(row: Row): number {
  switch (row.kind) {
    case "turn": return 58 + 24 * lines(row.turn.text, 90);
    case "end": return row.log.error || stopText(row.log) ? 62 : 34;
    case "asked": return 58 + 24 * lines(row.text, 90);
    case "wait": return 30;
    case "group": return 32;
    case "block":
      if (row.block.kind === "text") return 14 + 26 * lines(row.block.text, 95);
      return row.block.kind === "notice" ? 40 : 32;
  }
}

function lines(text: string, width: number): number {
  let sum = 1;
  for (let i = 0, from = 0; i <= text.length && sum < 400; i++) {
    if (i < text.length && text.charCodeAt(i) !== 10) continue;
    sum += Math.max(0, Math.ceil((i - from) / width) - 1) + (i < text.length ? 1 : 0);
    from = i + 1;
  }
  return sum;
}

/** logRows returns the rows of one agent's log. */
export function logRows(log: Log, density: Density, turn: number, rows: Row[] = []): Row[] {
  const blocks = shown(log);
  const last = blocks.length - 1;
  let group: ToolCall[] = [];
  let groupKey = "";
  const flush = () => {
    if (group.length > 3) rows.push({ key: `${groupKey}/group`, kind: "group", calls: group, turn });
    else for (const call of group) rows.push({ key: `${groupKey}/${call.id}`, kind: "block", block: { kind: "tool", key: groupKey, call }, live: false, turn });
    group = [];
  };
  blocks.forEach((block, i) => {
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
    if (block.kind === "said") {
      rows.push(rowOfTurn(block.turn));
      return;
    }
    if (block.kind === "thinking" && density === "talk") return;
    rows.push(rowOfBlock(block, log.live && i === last, turn));
  });
  flush();
  if (log.live && (last < 0 || blocks[last]!.kind === "tool" && (blocks[last] as { call: ToolCall }).call.output !== null)) {
    rows.push({ key: `${log.key}/wait`, kind: "wait", text: log.model ? `waiting for ${log.model}` : "starting", turn });
  }
  // A withdrawn message has an end and no answer.
  if (!log.live && (blocks.length > 0 || log.error || log.stored && stopText(log))) rows.push({ key: `${log.key}/end`, kind: "end", log, turn });
  return rows;
}

/** stopText returns the reason for an incomplete answer, and "" for a complete answer or one with an error. */
export function stopText(log: Log): string {
  if (log.error) return "";
  if (log.stop === "aborted") return shown(log).length > 0 ? "Stopped. The completed work is kept." : "Stopped before an answer.";
  return log.stop === "length" ? "The answer ends here: it reached the model's limit of output." : "";
}

/** foldable tools only read. Consecutive calls of them are folded into one line. */
const foldable = (name: string) => /^(file\.(read|list)|search\.|code\.lsp$|memory\.)/.test(name);
