import type { ToolCall } from "./transcript";
import { changed } from "./diff";
import { plural } from "./format";

type Json = Record<string, unknown>;

export const asObject = (value: unknown): Json => (value && typeof value === "object" && !Array.isArray(value) ? (value as Json) : {});
export const text = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));

const results = new WeakMap<ToolCall, Json>();

/** resultOf parses the result of a call, once; most tools return JSON. */
export function resultOf(call: ToolCall): Json {
  if (!call.output) return {};
  let known = results.get(call);
  if (!known) {
    try {
      known = asObject(JSON.parse(call.output));
    } catch {
      known = {};
    }
    results.set(call, known);
  }
  return known;
}

export interface Summary {
  /** The main parameter: a command, a path, a pattern. */
  what: string;
  /** The result, in a few words. */
  result: string;
  added: number;
  removed: number;
}

/** summary returns a summary of a call in one line. */
export function summary(call: ToolCall): Summary {
  const input = asObject(call.input);
  const out = resultOf(call);
  const s: Summary = { what: "", result: "", added: 0, removed: 0 };
  s.what = text(input["command"] ?? input["path"] ?? input["pattern"] ?? input["query"] ?? input["action"] ?? input["prompt"] ?? "");
  if (Array.isArray(input["command"])) s.what = (input["command"] as unknown[]).map(text).join(" ");
  if (call.name.startsWith("search.") && input["path"] && input["pattern"]) s.what = `${text(input["pattern"])} in ${text(input["path"])}`;
  const diff = text(out["diff"]);
  if (diff) Object.assign(s, changed(diff));
  if (call.output === null) return s;
  const error = asObject(out["error"]);
  if (call.isError) s.result = text(error["message"] ?? out["message"]) || call.output.slice(0, 160);
  else if (typeof out["exit_code"] === "number") s.result = out["timed_out"] ? "timed out" : `exit ${out["exit_code"]}`;
  else if (Array.isArray(out["matches"])) s.result = out["truncated"] ? `${out["matches"].length}+ matches` : plural(out["matches"].length, "match", "matches");
  else if (Array.isArray(out["files"])) s.result = plural(out["files"].length, "file");
  else if (Array.isArray(out["entries"])) s.result = plural(out["entries"].length, "entry", "entries");
  else if (typeof out["total_lines"] === "number") s.result = plural(out["total_lines"], "line");
  else if (typeof out["outcome"] === "string") s.result = text(out["outcome"]);
  return s;
}

/** failed reports whether a call failed, or its command exited with an error. */
export function failed(call: ToolCall): boolean {
  if (call.isError) return true;
  if (call.output === null) return false;
  const code = resultOf(call)["exit_code"];
  return typeof code === "number" && code !== 0;
}
