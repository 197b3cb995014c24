import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../src/lib/diff";
import { commentText, folded, gone, renamed } from "../src/lib/review";
import { lanesOf } from "../src/lib/timeline";

const file = (path: string, kind: string, diff: string | null, more = {}) => ({ path, kind, diff, agents: ["primary"], origin: "tool", added: 1, removed: 0, no_diff: null, ...more }) as never;

test("lines of a hunk are counted, so that a text that looks like a header is a text", () => {
  const [one, two] = parse("--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n same\n--- not a header\n+++ nor this\n+added\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n");
  assert.deepEqual(one!.lines.map((line) => [line.kind, line.text, line.old, line.now]), [
    ["hunk", "@@ -1,2 +1,3 @@", null, null], ["same", "same", 1, 1], ["del", "-- not a header", 2, null], ["add", "++ nor this", null, 2], ["add", "added", null, 3],
  ]);
  assert.equal(two!.path, "y");
});

test("a deleted and a created file with the same lines are one that was renamed", () => {
  const made = renamed([file("new", "created", "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n"), file("old", "deleted", "--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"), file("other", "created", "--- /dev/null\n+++ b/other\n@@ -0,0 +1,2 @@\n+a\n+b\n")]);
  assert.deepEqual(made.map((one) => [one.path, one.kind, one.from]), [["new", "renamed", "old"], ["other", "created", ""]]);
});

test("comments go in the order of files and lines, and those whose line has changed are told", () => {
  const comments = [{ path: "b", side: "new" as const, line: 9, text: "why", code: "x" }, { path: "a", side: "old" as const, line: 1, text: "keep it", code: "gone" }, { path: "a", side: "new" as const, line: 1, text: "hm", code: "now" }];
  assert.equal(commentText(comments), "Comments on your changes:\n\na:1 (removed line)\n    gone\nkeep it\n\na:1\n    now\nhm\n\nb:9\n    x\nwhy");
  const files = [{ ...(file("a", "modified", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-gone\n+other\n") as object), from: "" }] as never;
  assert.deepEqual(gone(comments, files).map((one) => one.text), ["why", "hm"]);
});

test("lock files, generated and long files are folded", () => {
  assert.equal(folded(file("web/package-lock.json", "modified", "x")), "It is a generated file.");
  assert.equal(folded(file("a.txt", "modified", "x", { added: 4000 })), "It is long.");
  assert.equal(folded(file("main.go", "modified", "x")), "");
});

test("a run's lanes: model calls, tools between them, children below, and what waited for an answer", () => {
  const step = (n: number, at: number, duration: number, tools: string[] = []) => ({ step: n, created_at: at, model: "m", provider: "p", parts: tools.map((name) => ({ type: "tool_call", name })), stats: { duration }, usage: null });
  const run = { id: "r", created_at: 0, started_at: 1000, ended_at: 9000, steps: [step(1, 3000, 2000, ["shell.bash"]), step(2, 9000, 1000)] };
  const child = { invocation_id: "i", parent_invocation_id: null, agent_path: "primary.subagents.tester", started_at: 4000, ended_at: 6000, state: "completed", run_steps: [], tokens_in: 1, tokens_out: 2, cost_usd: null };
  const view = lanesOf(run as never, [child] as never, [{ id: "a", run_id: "r", requested_at: 3500, resolved_at: 3900, state: "approved", subject: { tool: "shell.bash" } }] as never, 10_000);
  assert.deepEqual(view.lanes.map((lane) => [lane.name, lane.depth, ...lane.spans.map((one) => `${one.kind} ${one.from}-${one.to}`)]), [
    ["primary", 0, "model 1000-3000", "tools 3000-8000", "ask 3500-3900", "model 8000-9000"], ["tester", 1, "agent 4000-6000"],
  ]);
});
