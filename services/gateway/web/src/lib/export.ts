import type { Session, SessionMessage } from "@kaged/client";
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
    for (const part of one.parts?.length ? one.parts : [{ type: "text", text: one.content }]) {
      if (part.type === "text") lines.push(part.text ?? "", "");
      else if (part.type === "tool_call" && "name" in part) lines.push(fenced(`${part.name} ${JSON.stringify(part.input)}`), "");
      else if (part.type === "tool_result" && "output" in part) lines.push(fenced(part.output ?? ""), "");
    }
  }
  return lines.join("\n");
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
