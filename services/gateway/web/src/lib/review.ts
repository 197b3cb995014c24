import type { FileChange } from "@kaged/client";
import { parse, type Line } from "./diff";

/** Comment is an operator's comment on a line. */
export interface Comment { path: string; side: "old" | "new"; line: number; text: string; code: string }

/** Typed is a comment that is being written: its file, its place as a key, and its text. */
export interface Typed { path: string; where: string; text: string }

/** Change is a changed file in the review. */
export interface Change extends FileChange {
  /** The earlier path of a renamed file, "" for another. */
  from: string;
}

/** place returns the position of a line, and placeKey a position as a string. */
export const place = (path: string, line: Line) => (line.kind === "del" ? { path, side: "old" as const, line: line.old ?? 0 } : { path, side: "new" as const, line: line.now ?? 0 });
export const placeKey = (c: { path: string; side: string; line: number }) => `${c.path}\n${c.side}\n${c.line}`;

/** commentText returns all comments as one message to the agent, in the order of files and lines. */
export function commentText(comments: Comment[]): string {
  const order = [...comments].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line));
  return "Comments on your changes:\n\n" + order.map((one) => `${one.path}:${one.line}${one.side === "old" ? " (removed line)" : ""}\n    ${one.code}\n${one.text}`).join("\n\n");
}

/** gone returns the comments on lines that are no longer shown, because the file has changed. */
export function gone(comments: Comment[], files: Change[]): Comment[] {
  const shown = new Map<string, string>();
  const about = new Set(comments.map((one) => one.path));
  for (const file of files) {
    if (!about.has(file.path) || !file.diff) continue;
    for (const part of parse(file.diff)) for (const line of part.lines) if (line.kind !== "hunk" && line.kind !== "note") shown.set(placeKey(place(file.path, line)), line.text);
  }
  const listed = new Map(files.map((one) => [one.path, one]));
  return comments.filter((one) => !listed.get(one.path)?.truncated && shown.get(placeKey(one)) !== one.code);
}

/** renamed joins a deleted file with a created one of the same content. */
export function renamed(files: FileChange[]): Change[] {
  const side = (file: FileChange, mark: "+" | "-") => {
    if (!file.diff || file.truncated) return "";
    const kind = mark === "+" ? "add" : "del";
    return parse(file.diff).flatMap((part) => part.lines.filter((line) => line.kind === kind).map((line) => line.text)).join("\n");
  };
  const deleted = new Map<string, FileChange>();
  for (const file of files) if (file.kind === "deleted") { const key = side(file, "-"); if (key) deleted.set(key, file); }
  const taken = new Set<FileChange>();
  const out = files.map((file): Change => {
    const from = file.kind === "created" && deleted.size ? deleted.get(side(file, "+")) : undefined;
    if (!from || taken.has(from)) return { ...file, from: "" };
    taken.add(from);
    return { ...file, kind: "renamed", from: from.path, added: 0, removed: 0 };
  });
  return out.filter((_, i) => !taken.has(files[i]!));
}

/** folded returns the reason for showing a file folded, or "". */
export function folded(file: FileChange): string {
  if (/(^|\/)(package-lock\.json|pnpm-lock\.yaml|yarn\.lock|go\.sum|Cargo\.lock|poetry\.lock|uv\.lock)$|\.min\.(js|css)$|\.(pb|gen|sql)\.go$/.test(file.path)) return "It is a generated file.";
  return (file.added ?? 0) + (file.removed ?? 0) > 1500 || (file.diff?.length ?? 0) > 48_000 ? "It is long." : "";
}
