/** Token is a piece of code with the name of its kind. */
export interface Token { text: string; scope: string }

type Node = string | { scope?: string; children: Node[] };

let loading: Promise<typeof import("highlight.js/lib/core")["default"]> | null = null;

const aliases: Record<string, string> = {
  js: "javascript", ts: "typescript", tsx: "typescript", jsx: "javascript", mjs: "javascript", py: "python", sh: "bash", shell: "bash", zsh: "bash", yml: "yaml",
  rs: "rust", golang: "go", h: "c", cc: "cpp", hpp: "cpp", html: "xml", svelte: "xml", md: "markdown", toml: "ini", kt: "java",
};
const names = ["go", "typescript", "javascript", "python", "bash", "json", "yaml", "rust", "c", "cpp", "sql", "xml", "css", "diff", "java", "markdown", "ini"];

/** languageOf returns the language of a file or of a fence, "" for an unknown one. */
export function languageOf(name: string): string {
  const end = name.toLowerCase().split(/[./\\]/).pop() ?? "";
  const language = aliases[end] ?? end;
  return names.includes(language) ? language : "";
}

async function core() {
  const { hljs, languages } = await import("./languages");
  for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);
  return hljs;
}

/** tokens splits code into tokens. It uses the library's tree and not its HTML. */
export async function tokens(code: string, language: string): Promise<Token[]> {
  if (!language || code.length > 200_000) return [{ text: code, scope: "" }];
  const hljs = await (loading ??= core());
  const result = hljs.highlight(code, { language, ignoreIllegals: true });
  const found: Token[] = [];
  const walk = (node: Node, scope: string) => {
    if (typeof node === "string") found.push({ text: node, scope });
    else for (const child of node.children) walk(child, (node.scope ?? scope).split(".")[0] ?? "");
  };
  walk((result as unknown as { _emitter: { rootNode: Node } })._emitter.rootNode, "");
  return found;
}
