// Draws Markdown as elements of a fixed list of node types, without HTML strings and images. A link shows its host.
import type { RootContent, TableCell } from "mdast";
import { CodeBlock } from "./code";
import { languageOf } from "./highlight";
import { link, type Part } from "./markdown";

/** Content is a node of the tree, or a piece of text that is not parsed. */
type Content = RootContent | TableCell | { type: "joined"; children: RootContent[] } | { type: "piece"; value: string; joined: boolean } | { type: "plain"; value: string };

/** Drawn is a node with its element. The same node again changes nothing. */
export interface Drawn { node: Content; dom: HTMLElement | Text; inside: Element; children: Drawn[]; code?: CodeBlock; depth: number }

/** Deeper nodes are shown as text. */
const deepest = 20;

/** The contents of parts. The same content again is not compared with what is drawn. */
const contents = new WeakMap<Part, Content[]>();

/** contentOf returns the content of the parts of a text, in order. */
export function contentOf(parts: Part[]): Content[] {
  return parts.flatMap((part) => {
    let known = contents.get(part);
    if (!known) contents.set(part, (known = contentOfPart(part)));
    return known;
  });
}

function contentOfPart(part: Part): Content[] {
  if (part.code) return [{ type: "piece", value: part.text, joined: part.joined }];
  if (!part.tree) return [{ type: "plain", value: part.text }];
  return part.joined ? [{ type: "joined", children: part.tree.children }] : part.tree.children;
}

/** draw changes the elements in parent from the drawn nodes to the given ones, and keeps elements of unchanged nodes. */
export function draw(parent: Element, before: Drawn[], nodes: readonly Content[], depth = 0): Drawn[] {
  const now = nodes.map((node, i) => {
    const old = before[i];
    if (old && (old.node === node || change(old, node))) return old;
    const made = make(node, depth);
    if (old) { close(old); old.dom.replaceWith(made.dom); } else parent.append(made.dom);
    return made;
  });
  for (const old of before.slice(nodes.length)) { close(old); old.dom.remove(); }
  return now;
}

/** close ends what runs for drawn nodes. */
export function close(drawn: Drawn): void {
  drawn.code?.close();
  drawn.children.forEach(close);
}

function element(name: string, classes = "", text = ""): HTMLElement {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
}

const textOf = (node: unknown): string => {
  const n = node as { value?: string; children?: unknown[]; alt?: string };
  return n.value ?? n.alt ?? (n.children ?? []).map(textOf).join("");
};

/** change draws a node into the element of an earlier one, if both are of one kind. */
function change(old: Drawn, node: Content): boolean {
  const was = old.node;
  if (was.type !== node.type || old.depth > deepest) return false;
  if (was.type === "text" && node.type === "text") {
    const text = old.dom as Text;
    // The browser measures only the appended words anew.
    if (node.value.startsWith(was.value)) { if (node.value !== was.value) text.appendData(node.value.slice(was.value.length)); }
    else text.data = node.value;
  } else if (was.type === "code" && node.type === "code" && was.lang === node.lang) old.code!.show(node.value, languageOf(node.lang ?? ""));
  else if (shape(was) === shape(node) && "children" in node && shape(node)) old.children = draw(old.inside, old.children, node.children as Content[], old.depth + 1);
  else return false;
  old.node = node;
  return true;
}

/** shape identifies the element of a node whose children alone may change, "" for another node. */
function shape(node: Content): string {
  switch (node.type) {
    case "paragraph": case "strong": case "emphasis": case "delete": case "blockquote": case "joined": return node.type;
    case "heading": return `heading ${node.depth}`;
    case "list": return `list ${node.ordered ? node.start ?? 1 : ""}`;
    case "listItem": return typeof node.checked === "boolean" ? "" : node.type;
    default: return "";
  }
}

const plainElements: Record<string, string> = { paragraph: "p", strong: "strong", emphasis: "em", delete: "del", blockquote: "blockquote" };

function make(node: Content, depth: number): Drawn {
  const drawn: Drawn = { node, dom: document.createTextNode(""), inside: null as never, children: [], depth };
  const put = (dom: HTMLElement | Text, children?: readonly Content[], inside = dom as Element) => {
    drawn.dom = dom;
    drawn.inside = inside;
    if (children) drawn.children = draw(inside, [], children, depth + 1);
    return drawn;
  };
  if (depth > deepest) return put(document.createTextNode(textOf(node)));
  switch (node.type) {
    case "text": return put(document.createTextNode(node.value));
    case "paragraph": case "strong": case "emphasis": case "delete": case "blockquote": return put(element(plainElements[node.type]!), node.children);
    case "inlineCode": return put(element("code", "", node.value));
    case "break": return put(element("br"));
    case "thematicBreak": return put(element("hr"));
    case "code":
      drawn.code = new CodeBlock(node.lang ? `code, ${node.lang}` : "code");
      drawn.code.show(node.value, languageOf(node.lang ?? ""));
      return put(drawn.code.element);
    case "heading": {
      const heading = element("div", `heading h${node.depth}`);
      heading.setAttribute("role", "heading");
      heading.setAttribute("aria-level", String(Math.min(node.depth + 2, 6)));
      return put(heading, node.children);
    }
    case "list": {
      const list = element(node.ordered ? "ol" : "ul");
      if (node.ordered) (list as HTMLOListElement).start = node.start ?? 1;
      return put(list, node.children);
    }
    case "listItem": {
      if (typeof node.checked !== "boolean") return put(element("li"), node.children);
      const item = element("li", "task");
      item.append(element("span", "check", node.checked ? "☑" : "☐"), " ");
      return put(item, node.children);
    }
    case "link": return put(element("span"), node.children, document.createElement("a")) && linked(drawn, node.url);
    case "image": return put(element("span", "host", `[image: ${node.alt || node.url}]`));
    case "table": return put(table(node.children, drawn, depth));
    case "html": return put(element("span", "raw", node.value));
    case "joined": return put(element("div", "joined"), node.children);
    case "piece": return put(element("pre", node.joined ? "code piece joined" : "code piece", node.value));
    case "plain": return put(element("pre", "plain", node.value));
    default: return put(document.createTextNode(textOf(node)));
  }
}

/** linked adds the target of a link: its host, or the whole address of a link that may not be followed. */
function linked(drawn: Drawn, url: string): Drawn {
  const around = drawn.dom as HTMLElement, target = link(url);
  if (!target) {
    around.append(...drawn.inside.childNodes, " ", element("span", "host", `[${url}]`));
    return drawn;
  }
  const a = drawn.inside as HTMLAnchorElement;
  Object.assign(a, { href: target.href, target: "_blank", rel: "noreferrer noopener nofollow" });
  around.append(a);
  if (!textOf(drawn.node).includes(target.host)) around.append(" ", element("span", "host", `[${target.host}]`));
  return drawn;
}

function table(rows: ReadonlyArray<{ children: TableCell[] }>, drawn: Drawn, depth: number): HTMLElement {
  const region = element("div", "table"), body = element("table");
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", "table");
  region.tabIndex = 0;
  rows.forEach((row, r) => {
    const line = document.createElement("tr");
    for (const one of row.children) {
      const cell = document.createElement(r === 0 ? "th" : "td");
      if (r === 0) cell.setAttribute("scope", "col");
      drawn.children.push(...draw(cell, [], one.children, depth + 2));
      line.append(cell);
    }
    const group = document.createElement("tbody");
    group.append(line);
    body.append(group);
  });
  region.append(body);
  return region;
}
