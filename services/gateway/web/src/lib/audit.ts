import { firstLine, span } from "./format";
import { asObject, text } from "./tools";

/** The fields of events that say what happened, in the order in which they are read. */
const telling = ["tool_name", "command", "path", "pattern", "target", "covers", "label", "name", "model", "cage_summary", "outcome", "decision", "reason", "error_code", "remote"];

/** gist returns what an event is about, in one line: the tool and its command or file, the target, the outcome. */
export function gist(payload: unknown): string {
  const event = asObject(payload);
  const params = asObject(event["params"]);
  const parts = telling.map((field) => firstLine(text(event[field] ?? params[field]), 120)).filter(Boolean);
  const took = event["duration_ms"];
  if (typeof took === "number") parts.push(span(took));
  return parts.join(" · ");
}
