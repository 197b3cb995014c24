import type { Root, RootContent } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmAutolinkLiteralFromMarkdown } from "mdast-util-gfm-autolink-literal";
import { gfmStrikethroughFromMarkdown } from "mdast-util-gfm-strikethrough";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTaskListItemFromMarkdown } from "mdast-util-gfm-task-list-item";
import { gfmAutolinkLiteral } from "micromark-extension-gfm-autolink-literal";
import { gfmStrikethrough } from "micromark-extension-gfm-strikethrough";
import { gfmTable } from "micromark-extension-gfm-table";
import { gfmTaskListItem } from "micromark-extension-gfm-task-list-item";

/** Longer texts are shown without formatting. */
export const longest = 256 * 1024;

const options = {
  extensions: [gfmTable(), gfmStrikethrough(), gfmAutolinkLiteral(), gfmTaskListItem()],
  mdastExtensions: [gfmTableFromMarkdown(), gfmStrikethroughFromMarkdown(), gfmAutolinkLiteralFromMarkdown(), gfmTaskListItemFromMarkdown()],
};

/** words matches a line that is one paragraph without Markdown, with the empty lines after it. A number with a dot or a bracket begins a list. */
const words = /^((?:\p{L}|\d+(?![\d.)]))[\p{L}\p{N} ,.;:?()'"]*)(?:\n\n+(?! )|\n*$)/u;

/** parse returns the tree of a text, or null for a text that is too long. */
export function parse(text: string): Root | null {
  if (text.length > longest) return null;
  try {
    const paragraphs: RootContent[] = [];
    let rest = text;
    for (let line = words.exec(rest); line && !/www\./i.test(line[1]!); line = words.exec(rest)) {
      paragraphs.push({ type: "paragraph", children: [{ type: "text", value: line[1]!.trimEnd() }] });
      rest = rest.slice(line[0].length);
    }
    if (paragraphs.length === 0) return fromMarkdown(text, options);
    return { type: "root", children: rest ? [...paragraphs, ...fromMarkdown(rest, options).children] : paragraphs };
  } catch {
    return null;
  }
}

/** Part is a part of a text that is parsed separately. A completed part does not change when text is appended. */
export interface Part {
  /** Where it begins in the text. */
  at: number;
  text: string;
  tree: Root | null;
  /** Whether it continues a block that was cut, so that no gap precedes it. */
  joined: boolean;
  /** Raw lines of an unfinished code block. */
  code: boolean;
}

/** A block longer than longestOpen is cut, so that the cost of appending a word does not grow with the block. */
const longestOpen = 2048;
const longestTable = 16 * 1024;
/** Parsing the open block may take at most a quarter of the time. */
const rests = 3;
/** An unfinished code block is drawn in pieces of this many characters. */
const codePiece = 4096;

/** Parts parses a growing text: completed blocks are parsed once, and only the last block is parsed again. */
export class Parts {
  private done: Part[] = [];
  private text = "";
  /** The start of the open block, and its first unscanned line. */
  private from = 0;
  private line = 0;
  private fence = "";
  private blank = false;
  private joined = false;
  private table = false;
  /** The last line at which a list, quote or table in the open block may be cut. */
  private cut = 0;
  private pieces: Part[] = [];
  /** The last parsed state of the open block, and the time at which it may be parsed again. */
  private open: Part | null = null;
  private next = 0;
  /** The delay in milliseconds until of must be called again, because it returned less than the whole text; 0 for never. */
  wait = 0;

  /** of returns the parts of a text. If it continues the text of the last call, completed parts are the same objects. */
  of(text: string, live: boolean): Part[] {
    if (text.length < this.text.length || !text.startsWith(this.text)) this.reset();
    this.text = text;
    // A reference may be defined anywhere in the text.
    if (!live && text.length <= longest && /^ {0,3}\[[^\]\n]+\]:/m.test(text)) return [part(0, text, false, true)];
    this.scan();
    const rest = text.slice(this.from);
    this.wait = 0;
    if (!rest) return this.done;
    if (live && this.fence && rest.startsWith(this.fence) && rest.length > longestOpen) return [...this.done, ...this.openCode(rest)];
    if (!live) return [...this.done, part(this.from, rest, this.joined, true)];
    const longer = this.open?.at === this.from ? grown(this.open, rest) : null;
    if (longer) return [...this.done, (this.open = longer)];
    const now = performance.now();
    if (this.open?.at === this.from && this.open.text !== rest && now < this.next) this.wait = this.next - now;
    else if (this.open?.at !== this.from || this.open.text !== rest) {
      this.open = part(this.from, rest, this.joined);
      const end = performance.now();
      this.next = end + rests * (end - now);
    }
    return [...this.done, this.open];
  }

  /** ahead parses what was appended before it is drawn: its complete blocks, once there is one to parse, or all of it if it is drawn next. */
  ahead(text: string, next: boolean): void {
    if (next) this.of(text, true);
    else if (text.length - this.text.length >= longestOpen && text.startsWith(this.text)) {
      this.text = text;
      this.scan();
    }
  }

  private reset(): void {
    this.done = [];
    this.pieces = [];
    this.open = null;
    this.from = this.line = this.cut = 0;
    this.fence = "";
    this.blank = this.joined = this.table = false;
  }

  /** scan reads the new lines. Its result depends only on the text, not on the pieces in which it arrived. */
  private scan(): void {
    const { text } = this;
    for (;;) {
      // In an incomplete line, the first character decides whether a block begins.
      if (this.blank && !this.fence && this.line > this.from && this.line < text.length && begins.test(text[this.line]!)) this.settle(this.line);
      const end = text.indexOf("\n", this.line);
      const start = Math.max(this.line, this.from);
      if (!this.fence && !this.table && (end < 0 ? text.length : end) - start > longestOpen) {
        this.settle(between(text, start, start + longestOpen), true);
        continue;
      }
      if (end < 0) return;
      this.read(text.slice(this.line, Math.min(end, this.line + 200)));
      this.line = end + 1;
      if (!this.fence && this.line - this.from > (this.table ? longestTable : longestOpen)) {
        if (this.cut > this.from) this.settle(this.cut);
        else if (!this.blank) this.settle(this.line, true);
      }
    }
  }

  /** read examines the beginning of a complete line. */
  private read(line: string): void {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && !this.fence) {
      if (line[0] !== " " && this.line > this.from) this.settle(this.line);
      this.fence = mark;
    } else if (mark && mark[0] === this.fence[0] && mark.length >= this.fence.length) this.fence = "";
    else if (!this.fence) {
      if (this.line > this.from && (/^([-*+>]|\d+[.)]) /.test(line) || this.blank && /^\S/.test(line))) this.cut = this.line;
      if (/^ {0,3}\|?[ :|-]*-[ :|-]*$/.test(line) && line.includes("|")) this.table = true;
    }
    this.blank = line.trim() === "";
  }

  private settle(at: number, joined = false): void {
    const text = this.text.slice(this.from, at);
    const open = this.open?.at === this.from ? this.open : null;
    const known = open && (open.text === text ? open : grown(open, text));
    if (known) keep(text, known.tree);
    this.done = [...this.done, known ? { ...known, joined: this.joined } : part(this.from, text, this.joined, true)];
    this.from = at;
    this.line = Math.max(this.line, at);
    this.cut = 0;
    this.joined = joined;
    this.table = this.blank = false;
    this.pieces = [];
  }

  /** openCode returns an unfinished code block without parsing it. */
  private openCode(rest: string): Part[] {
    const from = this.from;
    const body = rest.indexOf("\n") + 1;
    let at = this.pieces.length ? this.pieces[this.pieces.length - 1]!.at + this.pieces[this.pieces.length - 1]!.text.length : from + body;
    for (;;) {
      const end = this.text.lastIndexOf("\n", at + codePiece) + 1;
      if (this.text.length - at <= codePiece || end <= at) break;
      this.pieces.push({ at, text: this.text.slice(at, end), tree: null, joined: this.pieces.length > 0, code: true });
      at = end;
    }
    return [...this.pieces, { at, text: this.text.slice(at), tree: null, joined: this.pieces.length > 0, code: true }];
  }
}

/** begins matches the first character of a line that starts a new block after an empty line. */
const begins = /[^\s\-*+\d>|]/;

/** between returns the last position between two words at which the second word does not start a block. */
function between(text: string, from: number, until: number): number {
  for (let at = text.lastIndexOf(" ", until - 1), tries = 0; at > from && tries < 50; at = text.lastIndexOf(" ", at - 1), tries++) {
    if (/^(?:\p{L}|\d[^\s.)]*\s)/u.test(text.slice(at + 1, at + 40))) return at + 1;
  }
  return until + (/[\uDC00-\uDFFF]/.test(text[until]!) ? 1 : 0);
}

function part(at: number, text: string, joined = false, done = false): Part {
  return { at, text, tree: done ? kept(text) : parse(text), joined, code: false };
}

/** plain matches text without Markdown meaning inside a line. */
const plain = /^[\p{L}\p{N} ,.'"]+$/u;
/** A line that more words cannot turn into another kind of block. */
const settled = /^[^<]*(\p{L}|\d +[^ .)])[^<]*$/u;
/** Text that may become a link when the word continues. */
const mayLink = /www|[@:/]\S*$/i;

/** grown returns a part with appended text without parsing it, or null if the text may be more than words at the end of a line. */
function grown(open: Part, text: string): Part | null {
  if (!open.tree || open.text === text || !text.startsWith(open.text)) return null;
  const before = open.text.trimEnd();
  const added = text.slice(before.length);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  if (!settled.test(line) || !plain.test(added) || !plain.test(before.slice(-1)) || mayLink.test(text.slice(before.lastIndexOf(" ") + 1))) return null;
  const tree = lengthened(open.tree, added.trimEnd());
  return tree ? { ...open, text, tree: tree as Root } : null;
}

/** lengthened returns a copy of a node with appended text, or null if it does not end with a text in a paragraph. */
function lengthened(node: unknown, added: string, inText = false): unknown {
  const { type, value, children } = node as { type: string; value?: string; children?: unknown[] };
  if (type === "text" && inText && value && plain.test(value.slice(-1))) return { ...(node as object), value: value + added };
  if (!children?.length || !["root", "paragraph", "list", "listItem", "blockquote"].includes(type)) return null;
  const last = lengthened(children[children.length - 1], added, type === "paragraph");
  return last && { ...(node as object), children: [...children.slice(0, -1), last] };
}

/** A cache of the trees of complete texts. */
const trees = new Map<string, Root | null>();
const treesKept = 600;

function kept(text: string): Root | null {
  let tree = trees.get(text);
  if (tree === undefined) tree = parse(text);
  keep(text, tree);
  return tree;
}

function keep(text: string, tree: Root | null): void {
  if (!trees.delete(text) && trees.size >= treesKept) trees.delete(trees.keys().next().value!);
  trees.set(text, tree);
}

export interface Link { href: string; host: string }

/** link returns the target of an allowed link, with its host to show, or null. Only links to the web are allowed. */
export function link(url: string): Link | null {
  try {
    const parsed = new URL(url);
    if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return null;
    if (parsed.username || parsed.password) return null;
    return { href: parsed.href, host: parsed.host };
  } catch {
    return null;
  }
}
