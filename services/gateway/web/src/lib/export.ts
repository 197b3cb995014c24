import type { Session, SessionMessage } from "@kaged/client";
import { kaged } from "./api";
import { documentOf } from "./document";

/** exported returns a session as Markdown, or as JSON lines: {"session": ...}, then {"message": ...} for each. */
export async function exported(id: string, form: "markdown" | "jsonl"): Promise<string> {
  const session: Session = await kaged.call("GET /api/v1/sessions/{id}", { id });
  const messages: SessionMessage[] = [];
  for await (const one of kaged.items("GET /api/v1/sessions/{session_id}/messages", { session_id: id })) messages.push(one);
  if (form === "markdown") return documentOf(session, messages);
  return [{ session }, ...messages.map((message) => ({ message }))].map((one) => `${JSON.stringify(one)}\n`).join("");
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
