import type { Root } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmAutolinkLiteralFromMarkdown } from "mdast-util-gfm-autolink-literal";
import { gfmStrikethroughFromMarkdown } from "mdast-util-gfm-strikethrough";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTaskListItemFromMarkdown } from "mdast-util-gfm-task-list-item";
import { gfmAutolinkLiteral } from "micromark-extension-gfm-autolink-literal";
import { gfmStrikethrough } from "micromark-extension-gfm-strikethrough";
import { gfmTable } from "micromark-extension-gfm-table";
import { gfmTaskListItem } from "micromark-extension-gfm-task-list-item";

/** Longer texts are shown as they are. */
export const longest = 256 * 1024;

const options = {
  extensions: [gfmTable(), gfmStrikethrough(), gfmAutolinkLiteral(), gfmTaskListItem()],
  mdastExtensions: [gfmTableFromMarkdown(), gfmStrikethroughFromMarkdown(), gfmAutolinkLiteralFromMarkdown(), gfmTaskListItemFromMarkdown()],
};

/** parse returns the tree of a text, null for one that is too long to be parsed while someone waits. */
export function parse(text: string): Root | null {
  if (text.length > longest) return null;
  try {
    return fromMarkdown(text, options);
  } catch {
    return null;
  }
}

/** Part is a piece of a text that is parsed by itself. A part that is done does not change when more text follows. */
export interface Part {
  /** Where it begins in the text. */
  at: number;
  text: string;
  tree: Root | null;
  /** Whether it goes on a block that was too long, so that no gap is before it. */
  joined: boolean;
  /** Lines of a code block whose end is still to come, as they are. */
  code: boolean;
}

/** A block that grows past longestOpen is cut, so that a long one costs no more for each word than a short one. */
const longestOpen = 2048;
const longestTable = 16 * 1024;
/** The open block is parsed for at most a fourth of the time. */
const rests = 3;
/** Code that is still written is drawn in pieces of so many characters. */
const codePiece = 4096;

/** Parts parses a text that grows: what is done is parsed once, and only the block at its end again. */
export class Parts {
  private done: Part[] = [];
  private text = "";
  /** Where the open block begins, and the first line of it that was not looked at. */
  private from = 0;
  private line = 0;
  private fence = "";
  private blank = false;
  private joined = false;
  private table = false;
  /** The last line of the open block that a list, a quote or a table may be cut at. */
  private cut = 0;
  private pieces: Part[] = [];
  /** The open block as it was last parsed, and when it may be parsed again. */
  private open: Part | null = null;
  private next = 0;
  /** In how many milliseconds the end of the text is to be asked for again, 0 for never: of returned less than the whole. */
  wait = 0;

  /** of returns the parts of a text. Where it goes on the text of the last call, parts that were done are the same objects. */
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

  private reset(): void {
    this.done = [];
    this.pieces = [];
    this.open = null;
    this.from = this.line = this.cut = 0;
    this.fence = "";
    this.blank = this.joined = this.table = false;
  }

  /** scan reads the lines that came since the last call. What it settles depends on the text alone, not on how it came. */
  private scan(): void {
    const { text } = this;
    for (;;) {
      // Of a line that is not whole its first character tells whether a block begins.
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

  /** read looks at the beginning of a whole line. */
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
    this.done = [...this.done, part(this.from, this.text.slice(this.from, at), this.joined, true)];
    this.from = at;
    this.line = Math.max(this.line, at);
    this.cut = 0;
    this.joined = joined;
    this.table = this.blank = false;
    this.pieces = [];
  }

  /** openCode draws code that is still written without parsing it. */
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

/** begins is the first character of a line that begins another block after an empty line. */
const begins = /[^\s\-*+\d>|]/;

/** between returns a place between two words, where the second begins no block, and as late as may be. */
function between(text: string, from: number, until: number): number {
  for (let at = text.lastIndexOf(" ", until - 1), tries = 0; at > from && tries < 50; at = text.lastIndexOf(" ", at - 1), tries++) {
    if (/^(?:\p{L}|\d[^\s.)]*\s)/u.test(text.slice(at + 1, at + 40))) return at + 1;
  }
  return until + (/[\uDC00-\uDFFF]/.test(text[until]!) ? 1 : 0);
}

function part(at: number, text: string, joined = false, done = false): Part {
  return { at, text, tree: done ? kept(text) : parse(text), joined, code: false };
}

/** plain is text that means nothing but itself wherever it follows such text within a line. */
const plain = /^[\p{L}\p{N} ,.'"]+$/u;
/** A line that cannot become another kind of block by more words. */
const settled = /^[^<]*(\p{L}|\d +[^ .)])[^<]*$/u;
/** What may become a link when more of the word comes. */
const mayLink = /www|[@:/]\S*$/i;

/** grown returns a part with more text without parsing it, null where that may mean more than words at the end of a line. */
function grown(open: Part, text: string): Part | null {
  if (!open.tree || open.text === text || !text.startsWith(open.text)) return null;
  const before = open.text.trimEnd();
  const added = text.slice(before.length);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  if (!settled.test(line) || !plain.test(added) || !plain.test(before.slice(-1)) || mayLink.test(text.slice(before.lastIndexOf(" ") + 1))) return null;
  const tree = lengthened(open.tree, added.trimEnd());
  return tree ? { ...open, text, tree: tree as Root } : null;
}

/** lengthened returns a copy of a node with more text at its end, null where no paragraph ends in text. */
function lengthened(node: unknown, added: string, inText = false): unknown {
  const { type, value, children } = node as { type: string; value?: string; children?: unknown[] };
  if (type === "text" && inText && value && plain.test(value.slice(-1))) return { ...(node as object), value: value + added };
  if (!children?.length || !["root", "paragraph", "list", "listItem", "blockquote"].includes(type)) return null;
  const last = lengthened(children[children.length - 1], added, type === "paragraph");
  return last && { ...(node as object), children: [...children.slice(0, -1), last] };
}

/** Trees of texts that do not grow, for rows that are drawn again. */
const trees = new Map<string, Root | null>();
const treesKept = 600;

function kept(text: string): Root | null {
  let tree = trees.get(text);
  if (tree !== undefined) {
    trees.delete(text);
  } else {
    tree = parse(text);
    if (trees.size >= treesKept) trees.delete(trees.keys().next().value!);
  }
  trees.set(text, tree);
  return tree;
}

export interface Link { href: string; host: string }

/** link returns where a link may lead, null where it may not: only to the web, and its host is shown. */
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
