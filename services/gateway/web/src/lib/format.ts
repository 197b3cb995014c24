const units: Array<[number, string]> = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];

/** ago returns the time since a moment, in one unit. */
export function ago(at: number | null | undefined, now: number): string {
  if (!at) return "";
  const passed = Math.max(0, now - at);
  if (passed < 5000) return "now";
  for (const [size, unit] of units) if (passed >= size) return `${Math.floor(passed / size)} ${unit} ago`;
  return "now";
}

/** within returns the time left until a moment. */
export function within(at: number, now: number): string {
  return at <= now ? "no time" : span(at - now);
}

/** span returns a duration in one or two units. */
export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${Math.floor((ms % 86_400_000) / 3_600_000)} h`;
}

/** moment returns an absolute time, for titles. */
export const moment = (at: number | null | undefined) => (at ? moments.format(at) : "");

/** One formatter for all calls, because creating one takes longer than drawing a row. */
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** count returns a number with few digits. */
export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  if (n < 1000) return String(n);
  if (n < 10_000) return `${(n / 1000).toFixed(1)}k`;
  if (n < 1_000_000) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

/** money returns US dollars. An unknown price is shown as "no price" and not as 0. */
export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "no price";
  if (usd === 0) return "$0";
  return usd < 0.01 ? "<$0.01" : `$${usd.toFixed(2)}`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(0)} KiB`;
  if (n < 1 << 30) return `${(n / (1 << 20)).toFixed(0)} MiB`;
  return `${(n / (1 << 30)).toFixed(1)} GiB`;
}

/** agentName returns an agent's tree path without its technical parts. */
export const agentName = (path: string) => path.replace(/^primary(\.subagents\.)?/, "").replaceAll(".subagents.", " / ") || "primary";

/** keyName returns the place of a key in the project file: its agent, without the technical parts, and its name. */
export const keyName = (path: string) => agentName(path).replace(/^\./, "primary.");

export const firstLine = (text: string, limit = 120) => {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
};

/** plural joins a number with its noun. */
export const plural = (n: number, one: string, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
