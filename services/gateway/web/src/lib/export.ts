import type { MessagePart, Session, SessionMessage } from "@kaged/client";
import { kaged } from "./api";

/** exported returns a session as Markdown, or as one line of JSON per message. */
export async function exported(session: Session, form: "markdown" | "jsonl"): Promise<string> {
  const messages: SessionMessage[] = [];
  for await (const one of kaged.items("GET /api/v1/sessions/{session_id}/messages", { session_id: session.id })) messages.push(one);
  if (form === "jsonl") return [session, ...messages].map((one) => JSON.stringify(one)).join("\n") + "\n";
  const lines = [`# ${session.name ?? session.id}`, "", `Project ${session.project_id}, session ${session.id}.`, ""];
  for (const one of messages) {
    if (one.role === "subagent") continue;
    lines.push(`## ${one.role === "operator" ? "Operator" : "Agent"}, ${new Date(one.created_at).toISOString()}`, "");
    for (const part of withResults(one.parts?.length ? one.parts : [{ type: "text", text: one.content }])) {
      if (part.type === "text") lines.push(part.text ?? "", "");
      else if (part.type === "tool_call") lines.push(fenced(`${part.name} ${JSON.stringify(part.input)}`), "");
      else if (part.type === "tool_result") lines.push(fenced(part.output ?? ""), "");
    }
  }
  return lines.join("\n");
}

/** withResults returns the parts of a message with each call's result after the call. A step of an agent has all its calls first. */
function withResults(parts: MessagePart[]): MessagePart[] {
  const results = new Map(parts.flatMap((part) => (part.type === "tool_result" && part.tool_call_id ? [[part.tool_call_id, part] as const] : [])));
  const calls = new Set(parts.flatMap((part) => (part.type === "tool_call" && part.id ? [part.id] : [])));
  return parts.flatMap((part) => {
    const result = part.type === "tool_call" ? results.get(part.id ?? "") : undefined;
    if (result) return [part, result];
    return part.type === "tool_result" && calls.has(part.tool_call_id ?? "") ? [] : [part];
  });
}

/** fenced returns a text in a code fence that is longer than any fence in the text. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** save downloads a text as a file. */
export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\p{L}\p{N}._ -]+/gu, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
