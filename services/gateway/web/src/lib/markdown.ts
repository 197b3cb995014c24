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

/** split parts a growing text before its last block, so that what is finished is parsed once. */
export function split(text: string): [string, string] {
  let fence = "";
  let at = 0;
  let offset = 0;
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && (!fence || (mark[0] === fence[0] && mark.length >= fence.length))) fence = fence ? "" : mark;
    offset += line.length + 1;
    if (line.trim() === "" && !fence && /^\S/.test(text.slice(offset, offset + 1)) && !/^[-*+\d>|]/.test(text.slice(offset, offset + 1))) at = offset;
  }
  return [text.slice(0, at), text.slice(at)];
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
