import type { MessagePart } from "@kaged/client";
import type { Block, Change, Log, ToolCall } from "./transcript";

const liveKept = 64 * 1024;

/** blocksOf joins calls with their results, and texts that follow each other. A step of a run ends with results; the first here is step. */
export function blocksOf(parts: MessagePart[], key: string, runId: string, step = 1): Block[] {
  const blocks: Block[] = [];
  let results = false;
  const calls = new Map<string, ToolCall>();
  parts.forEach((part, i) => {
    if (results && part.type !== "tool_result") step++;
    results = part.type === "tool_result";
    if (part.type === "text" || part.type === "thinking") {
      const last = blocks[blocks.length - 1];
      if (last?.kind === part.type && last.step === step) last.text += part.text ?? "";
      else if (part.text) blocks.push({ kind: part.type, key: `${key}/${i}`, text: part.text, step });
    } else if (part.type === "tool_call") {
      const call: ToolCall = { id: part.id ?? "", name: part.name ?? "", input: part.input, output: null, cut: false, isError: false, ms: null, live: "", runId };
      calls.set(call.id, call);
      blocks.push({ kind: "tool", key: `${key}/${i}`, call, step });
    } else if (part.type === "tool_result") {
      const call = calls.get(part.tool_call_id ?? "");
      const output = part.output ?? "";
      if (call) Object.assign(call, { output, isError: part.is_error ?? false, cut: output.endsWith("[shortened]"), ms: part.duration_ms ?? null });
    }
  });
  return blocks;
}

/**
 * keepKeys gives stored blocks the keys of the blocks that frames had made of the same answer. Rows stay the same elements
 * then, and the scroll position stays. A text that frames sent as one stays one. Notices, which are not stored, stay too,
 * and durations that no result was stored with; of an answer that was cut off, whose last step is not stored, also the text
 * that was seen.
 */
export function keepKeys(stored: Block[], live: Block[], cut = false): Block[] {
  const blocks: Block[] = [];
  const unstored = (from: number, to?: number) => live.slice(from, to).filter((one) => one.kind === "notice" || cut && "text" in one);
  let at = 0;
  for (let i = 0; i < stored.length; ) {
    const block = stored[i++]!;
    const found = live.findIndex((one, n) => n >= at && same(block, one, cut));
    if (found < 0) {
      blocks.push(block);
      continue;
    }
    blocks.push(...unstored(at, found));
    const one = live[found]!;
    at = found + 1;
    if (block.kind === "tool" && one.kind === "tool") blocks.push({ ...block, key: one.key, call: { ...block.call, ms: block.call.ms ?? one.call.ms } });
    else if ("text" in block && "text" in one) {
      let text = block.text;
      for (let next = stored[i]; next?.kind === block.kind && one.text.startsWith(text + next.text); next = stored[++i]) text += next.text;
      blocks.push({ ...block, key: one.key, text: cut && one.text.startsWith(text) ? one.text : text });
    } else blocks.push(block);
  }
  return [...blocks, ...unstored(at)];
}

function same(block: Block, one: Block, cut: boolean): boolean {
  if (one.kind === "tool" && block.kind === "tool") return one.call.id === block.call.id;
  if (one.kind === "said" && block.kind === "said") return one.turn === block.turn;
  if (one.kind === "notice" || !("text" in one) || !("text" in block) || one.kind !== block.kind) return false;
  return !cut || one.text.startsWith(block.text) || block.text.startsWith(one.text);
}

/** begin prepares a log for frames that repeat an answer from its beginning. The blocks already shown stay visible. */
export function begin(log: Log): void {
  log.seen = shown(log);
  log.blocks = [];
}

/** shown returns the blocks of a log that are drawn. */
export function shown(log: Log): Block[] {
  return log.seen.length > 0 ? log.seen : log.blocks;
}

/**
 * settle replaces the shown blocks by the repeated ones, once these cover them, or at the end of the answer. A run that continues after a
 * restart only sends its further steps, so the completed steps stay before them.
 */
export function settle(log: Log, over = false): void {
  if (log.seen.length === 0) return;
  let end = log.seen.length;
  while (end > 0 && !done(log.seen[end - 1]!)) end--;
  const again = repeats(log.blocks, log.seen);
  if (!over && !covers(log.blocks, again ? log.seen : log.seen.slice(end))) return;
  const kept = again ? [] : log.seen.slice(0, end);
  const told = new Set(log.blocks.flatMap((one) => (one.kind === "notice" ? [one.text] : [])));
  log.blocks = [...kept, ...keepKeys(log.blocks, log.seen.slice(kept.length).filter((one) => one.kind !== "notice" || !told.has(one.text)))];
  log.seen = [];
}

const done = (block: Block) => block.kind === "tool" && block.call.output !== null;

/** repeats reports whether blocks begin like the shown ones. */
function repeats(blocks: Block[], seen: Block[]): boolean {
  const calls = new Set(seen.flatMap((one) => (one.kind === "tool" && done(one) ? [one.call.id] : [])));
  if (blocks.some((one) => one.kind === "tool")) return blocks.some((one) => one.kind === "tool" && calls.has(one.call.id));
  const [now, before] = [firstText(blocks), firstText(seen)];
  return now === undefined || before !== undefined && (before.startsWith(now) || now.startsWith(before));
}

function firstText(blocks: Block[]): string | undefined {
  for (const block of blocks) if (block.kind === "text") return block.text;
  return undefined;
}

/** covers reports whether blocks contain at least the content of others. */
export function covers(blocks: Block[], others: Block[]): boolean {
  const [a, b] = [amount(blocks), amount(others)];
  return a.every((n, i) => n >= b[i]!);
}

function amount(blocks: Block[]): number[] {
  let said = 0, thought = 0, calls = 0, results = 0;
  for (const block of blocks) {
    if (block.kind === "text") said += block.text.length;
    else if (block.kind === "thinking") thought += block.text.length;
    else if (block.kind === "tool") { calls++; if (block.call.output !== null) results++; }
  }
  return [said, thought, calls, results];
}

/** append adds a text to the last block of its kind, or as a new block. It returns what has changed. */
export function append(log: Log, kind: "text" | "thinking", text: string, key: () => string): Change {
  const last = log.blocks[log.blocks.length - 1];
  if (last?.kind === kind) {
    last.text += text;
    return "text";
  }
  log.blocks.push({ kind, key: key(), text });
  return "rows";
}

/** change replaces a call by a changed copy, so that only its row is redrawn. */
export function change(log: Log, id: string, by: (call: ToolCall) => Partial<ToolCall>): boolean {
  for (let i = log.blocks.length - 1; i >= 0; i--) {
    const block = log.blocks[i]!;
    if (block.kind === "tool" && block.call.id === id) {
      log.blocks[i] = { ...block, call: { ...block.call, ...by(block.call) } };
      return true;
    }
  }
  return false;
}

/** retract removes the texts since the last tool result. */
export function retract(log: Log, key: string, reason: string): void {
  let end = log.blocks.length;
  while (end > 0) {
    const block = log.blocks[end - 1]!;
    if (block.kind === "tool" && block.call.output !== null) break;
    end--;
  }
  log.blocks.splice(end, log.blocks.length, { kind: "notice", key, tone: "warn", text: `The answer broke off and is asked for once more: ${reason}` });
}

export const tail = (text: string) => (text.length > liveKept ? text.slice(-liveKept) : text);
