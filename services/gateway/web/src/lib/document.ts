// A session as a Markdown document, the same text as `kaged session export` writes: services/kaged/internal/cli/session/testdata has cases for both.
import type { MessagePart, Session, SessionMessage } from "@kaged/client";
import { plain } from "./hidden";

const longestTitle = 120;

/** documentOf returns the document of a session with all its messages, in their stored order. */
export function documentOf(session: Session, messages: SessionMessage[]): string {
  const { totals } = session;
  const head = [
    `# ${session.name === null ? `Session ${session.id}` : brief(session.name)}\n`,
    `- session: ${session.id}`, `- project: ${session.project_id}`, `- created: ${moment(session.created_at)}`, `- state: ${session.state}`,
    `- tokens: ${totals?.tokens_in ?? 0} in, ${totals?.tokens_out ?? 0} out`,
    ...(typeof totals?.cost_usd === "number" ? [`- cost: $${totals.cost_usd.toFixed(4)}`] : []),
  ];
  return `${head.join("\n")}\n${inOrder(messages)}`;
}

/**
 * inOrder returns the texts of the messages. A message that steered a run is stored before the message of its run, and is written after the
 * step whose results the agent had when it read it. Without a message of its run, which is at work or lost, it stands by itself.
 */
function inOrder(messages: SessionMessage[]): string {
  let out = "", steers: SessionMessage[] = [];
  for (const one of messages) {
    if (one.subagent_invocation_id) { out += textOf(one); continue; }
    if (steers.length && steers[0]!.run_id !== one.run_id) {
      out += steers.map((steer) => textOf(steer)).join("");
      steers = [];
    }
    if (one.after_step) { steers.push(one); continue; }
    out += textOf(one, steers);
    steers = [];
  }
  return out + steers.map((steer) => textOf(steer)).join("");
}

function textOf(message: SessionMessage, steers: SessionMessage[] = []): string {
  let out = `\n## ${titleOf(message)}, ${moment(message.created_at)}\n`, read = 0;
  if (message.superseded) out += "\n_Superseded: it was taken back._\n";
  if (!message.parts?.length && message.content) out += `\n${message.content}\n`;
  stepsOf(message.parts ?? []).forEach((step, i) => {
    for (; read < steers.length && steers[read]!.after_step! <= i; read++) out += `${textOf(steers[read]!)}\n## ${titleOf(message)} goes on\n`;
    out += step.map(partText).join("");
  });
  if (message.metadata?.error_message) out += `\n**Failed:** ${message.metadata.error_message}\n`;
  return out + steers.slice(read).map((steer) => textOf(steer)).join("");
}

/** stepsOf returns the parts of each step of a run's message: the model's text, then its calls, each with its result. */
function stepsOf(parts: MessagePart[]): MessagePart[][] {
  const steps: MessagePart[][] = [];
  parts.forEach((part, i) => {
    const isResult = part.type === "tool_result";
    if (i === 0 || !isResult && parts[i - 1]!.type === "tool_result") steps.push([]);
    const step = steps.at(-1)!;
    const call = isResult ? step.findIndex((one) => one.id && one.id === part.tool_call_id) : -1;
    step.splice(call < 0 ? step.length : call + 1, 0, part);
  });
  return steps;
}

function partText(part: MessagePart): string {
  switch (part.type) {
    case "thinking": return `\n> ${(part.text ?? "").trim().replaceAll("\n", "\n> ")}\n`;
    case "tool_call": return `\n**Call of ${part.name || "a tool"}**\n\n${fenced(JSON.stringify(part.input, null, 2) ?? "", "json")}`;
    case "tool_result": return `\n**${part.is_error ? "Failure" : "Result"} of ${part.name || "a tool"}**\n\n${fenced(part.output ?? "")}`;
    default: return part.text ? `\n${part.text}\n` : "";
  }
}

function titleOf(message: SessionMessage): string {
  const role = message.role.charAt(0).toUpperCase() + message.role.slice(1);
  return `${role}${message.subagent_invocation_id ? ` ${message.subagent_invocation_id}` : ""}${message.metadata?.model ? ` (${message.metadata.model})` : ""}`;
}

/** fenced returns a text in a code fence that is longer than any run of backticks in the text. */
function fenced(text: string, language = ""): string {
  let ticks = "```";
  while (text.includes(ticks)) ticks += "`";
  return `${ticks}${language}\n${text.replace(/\n$/, "")}\n${ticks}\n`;
}

function brief(name: string): string {
  const line = [...name.replace(/[\n\t\r ]+/g, " ")];
  return plain(line.slice(0, longestTitle).join("")) + (line.length > longestTitle ? "…" : "");
}

const moment = (at: number) => new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
