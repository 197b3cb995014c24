import assert from "node:assert/strict";
import { test } from "node:test";
import { Parts, parse, type Part } from "../src/lib/markdown";

const shapes = (parts: Part[]) => parts.map((part) => `${part.at}:${part.code ? "code" : part.joined ? "joined" : ""}:${part.text}`);
const whole = (parts: Part[]) => parts.map((part) => part.text).join("");
const kinds = (parts: Part[]) => parts.flatMap((part) => part.tree?.children.map((node) => node.type) ?? ["code"]);
const long = (n: number) => Array.from({ length: n }, (_, i) => `word${i}`).join(" ");

const texts: Record<string, string> = {
  blocks: `# Title\n\nOne *two*\nthree.\n\nFour.\n\n- a\n- b\n\n  inside\n\n1. x\n2. y\n\n> quote\n\nEnd`,
  code: `Before:\n\`\`\`go\nfunc main() {}\n\n# no title\n\`\`\`\nAfter.\n\n~~~\n\`\`\`\n~~~\n\nEnd.`,
  table: `| a | b |\n|---|---|\n| 1 | 2 |\n\nAfter it.`,
  paragraph: `${long(4000)}\n\nEnd.`,
  list: Array.from({ length: 900 }, (_, i) => `- item ${i} of many`).join("\n"),
  bold: Array.from({ length: 300 }, (_, i) => `**Point ${i}**: some text.`).join("\n\n"),
  solid: "x".repeat(20_000),
};

test("a text has the same parts however it came, and they are the whole text", () => {
  for (const [name, text] of Object.entries(texts)) {
    const once = new Parts().of(text, false);
    assert.equal(whole(once), text, name);
    for (const size of [1, 7, 1000]) {
      if (size < 100 && text.length > 8000) continue;
      const grown = new Parts();
      for (let end = size; end < text.length; end += size) {
        const parts = grown.of(text.slice(0, end), true);
        if (!parts.some((part) => part.code) && !grown.wait) assert.equal(whole(parts), text.slice(0, end), name);
      }
      assert.deepEqual(shapes(grown.of(text, false)), shapes(once), `${name} by ${size}`);
    }
  }
});

test("parts that are done stay the same objects, and the open one is short", () => {
  for (const [name, text] of Object.entries(texts)) {
    const parser = new Parts();
    let before: Part[] = [];
    for (let end = 100; end < text.length; end += 100) {
      const parts = parser.of(text.slice(0, end), true);
      before.slice(0, -1).forEach((part, i) => assert.equal(parts[i], part, name));
      assert.ok(parts[parts.length - 1]!.text.length <= 2200, `${name}: ${parts[parts.length - 1]!.text.length}`);
      before = parts;
    }
  }
});

test("a text that is parsed before it is drawn has the same parts", () => {
  for (const [name, text] of Object.entries(texts)) {
    const once = new Parts().of(text, false);
    const drawn = new Parts();
    for (let end = 50, n = 1; end < text.length; end += 50, n++) {
      drawn.ahead(text.slice(0, end), n % 97 === 0);
      if (n % 101 === 0 && !drawn.wait) drawn.of(text.slice(0, end), true);
    }
    assert.deepEqual(shapes(drawn.of(text, false)), shapes(once), name);
  }
  const parser = new Parts(), text = texts["paragraph"]!;
  parser.ahead(text, true);
  // Another text is read from its beginning.
  parser.ahead("Other.", false);
  assert.equal(whole(parser.of("Other.", true)), "Other.");
});

test("a line of words has the tree that the parser gives it", () => {
  const bare = (node: unknown): unknown => JSON.parse(JSON.stringify(node, (key, value) => (key === "position" ? undefined : value)));
  for (const text of ["Word", "Some words, and more of them. ", "a: b; c? (d) 'e' \"f\" 1.", "Größe 10", "http: no link", "A. b  ", "see www.example.com", "x 1) y",
    "2026 was it", "000000001 000000002 ", "12:30, or later", "1.5 or 2", "7", "7\n\n8. x",
    "One\n\nTwo\n\n- a\n- b\n", "One\n\n\n# Two", "One\n\n    code", "One\n\n [a]", "One\n===", "One\n\nwww.example.com", "a\n\n1. b\n\nc\n\n", "a  \nb"]) {
    // An empty character at the beginning makes the parser read it.
    const read = bare(parse(`\u200b${text}`)) as { children: [{ children: [{ value: string }] }] };
    read.children[0].children[0].value = read.children[0].children[0].value.slice(1);
    assert.deepEqual(bare(parse(text)), read, text);
  }
  for (const text of ["1. one", "12) one"]) assert.equal(parse(text)!.children[0]!.type, "list", text);
});

test("short texts have the blocks that the whole text has", () => {
  for (const name of ["blocks", "code", "table"]) {
    assert.deepEqual(kinds(new Parts().of(texts[name]!, false)), parse(texts[name]!)!.children.map((node) => node.type), name);
  }
});

test("a block of code that is still written is drawn in pieces that stay", () => {
  const parser = new Parts();
  const line = "some := line(of, code)\n";
  let text = "Look:\n```go\n";
  let before: Part[] = [];
  for (let i = 0; i < 1000; i++) {
    text += line;
    const parts = parser.of(text, true);
    if (before.length && before[before.length - 1]!.code) before.slice(0, -1).forEach((part, i) => assert.equal(parts[i], part));
    before = parts;
  }
  assert.ok(before.length > 4);
  assert.equal(before[0]!.text, "Look:\n");
  assert.equal(before.slice(1).map((part) => part.text).join(""), line.repeat(1000));
  const closed = parser.of(`${text}\`\`\`\n\nEnd.`, true);
  assert.deepEqual(kinds(closed), ["paragraph", "code", "paragraph"]);
});

test("a reference may be defined anywhere in a text that is whole", () => {
  const text = "See [it][1].\n\nMore.\n\n[1]: https://example.com/\n";
  assert.equal(new Parts().of(text, false).length, 1);
});

test("a text that grows has the tree of the text that is there at once", () => {
  const pieces = ["word", "a", "1", "22", " ", "  ", ".", ",", ")", "(", "'", "*", "**", "_", "`", "#", "-", "\n", "\n\n", "|", "[", "]", "!", "<", "div", ">", "&", "amp", ";", ":", "//", "@", "www", "~", "\\", "é", "=", "+ "];
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48_271) % 2_147_483_647) % n;
  const tree = (parts: Part[]) => JSON.stringify(parts.map((part) => part.tree), (name, value) => (name === "position" ? undefined : value));
  for (let round = 0; round < 1500; round++) {
    const grown = new Parts();
    let text = "";
    for (let n = 0; n < 14; n++) {
      for (let more = 1 + random(3); more > 0; more--) text += pieces[random(2) ? random(5) : random(pieces.length)];
      const parts = grown.of(text, true);
      if (!grown.wait) assert.equal(tree(parts), tree(new Parts().of(text, true)), JSON.stringify(text));
    }
  }
});
