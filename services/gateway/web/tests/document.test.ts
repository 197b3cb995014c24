import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { documentOf } from "../src/lib/document";

// The test runs in the folder of the console.
const data = "../../kaged/internal/cli/session/testdata/";

test("a session is the same document as the command line writes", () => {
  const names = readdirSync(data).filter((name) => name.endsWith(".jsonl"));
  assert.ok(names.length >= 2);
  for (const name of names) {
    const [first, ...rest] = readFileSync(data + name, "utf8").trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(documentOf(first.session, rest.map((one) => one.message)), readFileSync(data + name.replace("jsonl", "md"), "utf8"), name);
  }
});
