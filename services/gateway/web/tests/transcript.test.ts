import assert from "node:assert/strict";
import { test } from "node:test";
import { logRows, rowsOf, type Row } from "../src/lib/rows";
import { Transcript } from "../src/lib/transcript";

const operator = (n: number, run = `r${n}`) => ({ id: `01M${String(2 * n).padStart(23, "0")}`, session_id: "s", role: "operator", content: `question ${n}`, created_at: n, run_id: run, superseded: false }) as never;
const answer = (n: number, parts?: unknown[], run = `r${n}`) => ({
  id: `01M${String(2 * n + 1).padStart(23, "0")}`, session_id: "s", role: "primary", content: `answer ${n}`, created_at: n, run_id: run, superseded: false,
  metadata: { provider: "p", model: "m", stop_reason: "end" }, ...(parts ? { parts } : {}),
}) as never;
const frame = (type: string, payload: object) => ({ channel: "output", seq: 1, type, payload }) as never;
const start = (id: string, run: string) => frame("message.start", { message_id: id, run_id: run, provider: "p", model: "m", started_at: 5 });
const delta = (id: string, text: string, kind = "text") => frame("message.delta", { message_id: id, delta: text, kind });
const texts = (rows: Row[]) => rows.map((row) => row.kind === "turn" ? `${row.n}: ${row.turn.text}` : row.kind === "block" && "text" in row.block ? row.block.text : row.kind === "block" ? `tool ${(row.block as { call: { name: string } }).call.name}` : row.kind);
const durations = (rows: Row[]) => rows.flatMap((row) => row.kind === "block" && row.block.kind === "tool" ? [row.block.call.ms] : []);
const unique = (rows: Row[]) => assert.equal(new Set(rows.map((row) => row.key)).size, rows.length, "keys are unique");

test("pages from the end are laid out in the order of the conversation, and turns have their true numbers", () => {
  const t = new Transcript();
  t.older([answer(9), operator(9), answer(8)], 8);
  assert.equal(t.turns, 9);
  t.older([operator(8), answer(7), operator(7)], 6);
  const rows = rowsOf(t, "normal");
  assert.deepEqual(texts(rows).filter((text) => text !== "end"), ["7: question 7", "answer 7", "8: question 8", "answer 8", "9: question 9", "answer 9"]);
  t.newer([operator(10), answer(10)]);
  assert.equal(t.turns, 10);
  assert.deepEqual(texts(rowsOf(t, "normal")).slice(-3), ["10: question 10", "answer 10", "end"]);
  unique(rowsOf(t, "normal"));
});

test("the list of rows is the same until the conversation or the density changes", () => {
  const t = new Transcript(), id = (answer(2) as { id: string }).id;
  let before: Row[] = [];
  const renewed = (density: "normal" | "all" = "normal") => { const rows = rowsOf(t, density), yes = rows !== before; before = rows; return yes; };
  const changes: Record<string, () => void> = {
    older: () => t.older([answer(1), operator(1)], 0), newer: () => t.newer([operator(2)]), frame: () => void t.apply(start(id, "r2")),
    block: () => void t.apply(delta(id, "I ")), steer: () => void t.steer({ message_id: "m", content: "and", state: "queued", at: 1, run_id: "r2" } as never), forget: () => t.forget(),
  };
  for (const [name, change] of Object.entries(changes)) {
    change();
    assert.equal(renewed(), true, name);
    assert.equal(renewed(), false, name);
  }
  t.older([answer(1), operator(1)], 0);
  renewed();
  assert.equal(renewed("all"), true);
  t.apply(delta(id, "look"));
  assert.equal(rowsOf(t, "all"), before);
});

test("a message that is read twice is there once, and its marks are the last ones", () => {
  const t = new Transcript();
  t.older([answer(1), operator(1)], 0);
  t.newer([{ ...(operator(1) as object), superseded: true, always_keep: true } as never, answer(1)]);
  const rows = rowsOf(t, "normal");
  assert.equal(rows.length, 3);
  assert.equal(rows[0]!.kind === "turn" && rows[0]!.superseded && rows[0]!.alwaysKeep, true);
  assert.equal(t.turns, 1);
});

test("a frame changes the row of its block, all other rows are the same objects, and a text grows in its row", () => {
  const t = new Transcript();
  t.older([operator(1)], 0);
  const id = (answer(1) as { id: string }).id;
  for (const one of [start(id, "r1"), delta(id, "I think.", "thinking"), frame("message.tool_call", { message_id: id, id: "c", name: "shell.bash", input: {} }), delta(id, "I ")]) t.apply(one);
  const before = rowsOf(t, "all");
  assert.equal(t.apply(delta(id, "look.")), "text");
  const after = rowsOf(t, "all");
  assert.deepEqual(after.map((row, i) => row === before[i]), [true, true, true, true]);
  assert.equal((after[3] as { block: { text: string } }).block.text, "I look.");
  t.apply(frame("message.tool_result", { message_id: id, tool_call_id: "c", output: "{}", is_error: false, duration_ms: 7 }));
  assert.deepEqual(rowsOf(t, "all").map((row, i) => row === after[i]), [true, true, false, true]);
  assert.equal(t.apply(delta(id, "And", "thinking")), "rows");
  assert.equal(rowsOf(t, "all")[3] === after[3], false);
});

test("a stored answer takes the place of the live one, and its rows keep their keys", () => {
  const t = new Transcript();
  t.older([operator(1)], 0);
  const id = (answer(1) as { id: string }).id;
  for (const one of [
    start(id, "r1"), delta(id, "I think.", "thinking"), delta(id, "I "), delta(id, "look."), frame("message.tool_call", { message_id: id, id: "c", name: "shell.bash", input: { command: "x" } }),
    frame("message.tool_output", { message_id: id, tool_call_id: "c", text: "out" }), frame("message.tool_result", { message_id: id, tool_call_id: "c", output: "{}", is_error: false, duration_ms: 7 }),
    delta(id, "Done."),
  ]) t.apply(one);
  const live = rowsOf(t, "all");
  t.newer([answer(1, [
    { type: "thinking", text: "I think." }, { type: "text", text: "I look." }, { type: "tool_call", id: "c", name: "shell.bash", input: { command: "x" } },
    { type: "tool_result", tool_call_id: "c", output: "{}", duration_ms: 7 }, { type: "text", text: "Done." },
  ])]);
  const stored = rowsOf(t, "all");
  assert.deepEqual(stored.slice(0, live.length).map((row) => row.key), live.map((row) => row.key));
  assert.deepEqual(texts(stored).slice(0, 5), ["1: question 1", "I think.", "I look.", "tool shell.bash", "Done."]);
  assert.deepEqual(durations(stored), [7]);
  unique(stored);
});

test("texts of a stored answer that follow each other are one row, as they were while they came", () => {
  const t = new Transcript();
  t.older([answer(1, [
    { type: "thinking", text: "I " }, { type: "thinking", text: "think." }, { type: "text", text: "one " }, { type: "text", text: "two" },
    { type: "tool_call", id: "c", name: "shell.bash", input: {} }, { type: "tool_result", tool_call_id: "c", output: "{}" }, { type: "text", text: "three" },
  ]), operator(1)], 0);
  assert.deepEqual(texts(rowsOf(t, "all")), ["1: question 1", "I think.", "one two", "tool shell.bash", "three", "end"]);
});

test("frames of answers before what was read add nothing", () => {
  const t = new Transcript();
  t.older([answer(5), operator(5)], 4);
  t.floor = (answer(5) as { id: string }).id;
  const old = (answer(2) as { id: string }).id;
  for (const one of [start(old, "r2"), delta(old, "old"), frame("message.end", { message_id: old, ended_at: 1 })]) t.apply(one);
  assert.equal(rowsOf(t, "normal").length, 3);
  const now = (answer(6) as { id: string }).id;
  t.apply(start(now, "r6"));
  t.apply(delta(now, "new"));
  assert.deepEqual(texts(rowsOf(t, "normal")).slice(-1), ["new"]);
});

test("a replay that begins anew does not double a text, and a retraction takes back what was said since the last result", () => {
  const t = new Transcript();
  for (let i = 0; i < 2; i++) {
    t.apply(start("01MZ", "r"));
    for (const text of ["a", "b", "c"]) t.apply(delta("01MZ", text));
  }
  assert.equal(texts(rowsOf(t, "normal"))[0], "abc");
  t.apply(frame("message.retract", { message_id: "01MZ", step: 1, reason: "broke" }));
  assert.match(texts(rowsOf(t, "normal"))[0]!, /asked for once more: broke/);
});

test("frames that come without their beginning, or of what is not known, do no harm", () => {
  const t = new Transcript();
  for (const one of [
    delta("01MZ", "x"), frame("message.tool_result", { message_id: "01MZ", tool_call_id: "none", output: "", is_error: true, duration_ms: 1 }), frame("message.end", { message_id: "none", ended_at: 1 }),
    frame("subagent.end", { invocation_id: "none", exit: 0, outcome: "completed", steps: 1, cost_usd: null, ended_at: 1 }), frame("subagent.tool_result", { invocation_id: "other", tool_call_id: "c", output: "", is_error: false, duration_ms: 1 }),
    frame("run.ended", { run_id: "r", outcome: "completed", cost_usd: null, tokens_in: 0, tokens_out: 0 }), frame("unknown.type", {}),
  ]) t.apply(one);
  unique(rowsOf(t, "all"));
});

test("a held text is said to have changed, to be gone or not to be approved yet", () => {
  const t = new Transcript();
  t.apply(start("01M1", "r"));
  for (const [accepted_sha256, sha256] of [["a", "b"], ["a", ""], ["", "b"]]) t.apply(frame("prompt.held", { run_id: "r", path: "AGENTS.md", accepted_sha256, sha256 }));
  const said = JSON.stringify([...t.logs.values()]);
  for (const want of ["AGENTS.md has changed; the run goes on with the accepted text", "AGENTS.md is gone; the run goes on", "AGENTS.md is not approved yet; the run goes on without it"]) assert.ok(said.includes(want), said);
});

test("rows of stored answers stay the same objects while another answer is written", () => {
  const t = new Transcript();
  t.older([answer(1), operator(1)], 0);
  const before = rowsOf(t, "normal");
  t.apply(start("01MZ", "r2"));
  t.apply(delta("01MZ", "x"));
  rowsOf(t, "normal").slice(0, before.length).forEach((row, i) => assert.equal(row, before[i]));
});

test("keys are unique and no turn is lost, however pages, frames and repeated readings come", () => {
  for (let seed = 1; seed <= 200; seed++) {
    let state = seed;
    const random = (n: number) => ((state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) >>> 12) % n;
    const t = new Transcript();
    const all = Array.from({ length: 30 }, (_, i) => [operator(i + 1), answer(i + 1)]).flat();
    let from = all.length, known = all.length - 2 * random(10);
    from = known - 2 - random(8);
    t.older(all.slice(from, known).reverse(), Math.floor((from + 1) / 2));
    while (known < all.length || from > 0) {
      const what = random(4);
      if (what === 0 && from > 0) {
        const to = from;
        from = Math.max(0, from - 1 - random(9));
        t.older(all.slice(from, to).reverse(), Math.floor((from + 1) / 2));
      } else if (what === 1 && known < all.length) {
        const again = Math.max(from, known - random(6));
        known = Math.min(all.length, known + 1 + random(4));
        t.newer(all.slice(again, known));
      } else if (what === 2) {
        const id = (all[Math.min(all.length - 1, known | 1)] as { id: string }).id;
        t.apply(start(id, `r${(known >> 1) + 1}`));
        t.apply(delta(id, "live"));
      } else unique(rowsOf(t, (["talk", "normal", "all"] as const)[random(3)]!));
    }
    const rows = rowsOf(t, "normal");
    unique(rows);
    assert.deepEqual(rows.flatMap((row) => (row.kind === "turn" ? [row.n] : [])), Array.from({ length: 30 }, (_, i) => i + 1), `seed ${seed}`);
    assert.equal(t.turns, 30);
  }
});

test("a message that steered a run stands behind the results of its step, live and stored, in every order of arrival", () => {
  const id = (answer(1) as { id: string }).id;
  const steerId = "01M00000000000000000000002X";
  const said = { id: steerId, session_id: "s", role: "operator", content: "use tabs", created_at: 2, run_id: "r1", superseded: false, after_step: 1 } as never;
  const steer = (state: string) => frame("message.steer", { message_id: steerId, run_id: "r1", content: "use tabs", state, at: 2, after_step: state === "delivered" ? 1 : 0 });
  const call = (n: number) => [
    frame("message.tool_call", { message_id: id, id: `c${n}`, name: "shell.bash", input: {} }),
    frame("message.tool_result", { message_id: id, tool_call_id: `c${n}`, output: "{}", is_error: false, duration_ms: 7 }),
  ];
  const parts = [1, 2].flatMap((n) => [{ type: "tool_call", id: `c${n}`, name: "shell.bash", input: {} }, { type: "tool_result", tool_call_id: `c${n}`, output: "{}" }]);
  const want = (n: number) => ["1: question 1", "tool shell.bash", `${n}: use tabs`, "tool shell.bash"];
  const t = new Transcript();
  t.older([operator(1)], 0);
  for (const one of [start(id, "r1"), ...call(1).slice(0, 1), steer("queued"), ...call(1).slice(1)]) t.apply(one);
  assert.equal(t.steers.size, 1);
  for (const one of [steer("delivered"), ...call(2)]) t.apply(one);
  assert.equal(t.steers.size, 0);
  assert.deepEqual(texts(rowsOf(t, "normal")), [...want(0), "wait"]);
  t.newer([said]);
  assert.deepEqual(texts(rowsOf(t, "normal")), [...want(2), "wait"]);
  t.newer([answer(1, parts)]);
  assert.deepEqual(texts(rowsOf(t, "normal")), [...want(2), "end"]);
  unique(rowsOf(t, "normal"));
  for (const pages of [[[answer(1, parts), said, operator(1)]], [[answer(1, parts)], [said, operator(1)]], [[answer(1, parts), said], [operator(1)]]]) {
    const read = new Transcript();
    pages.forEach((page, i) => read.older(page, pages.length - 1 - i));
    assert.deepEqual(texts(rowsOf(read, "normal")).map((text) => text.replace(/^\d/, "n")), [...want(0), "end"].map((text) => text.replace(/^\d/, "n")));
  }
});

const call = (id: string, n: string) => frame("message.tool_call", { message_id: id, id: n, name: "shell.bash", input: {} });
const result = (id: string, n: string) => frame("message.tool_result", { message_id: id, tool_call_id: n, output: "{}", is_error: false, duration_ms: 7 });

test("an answer that is told anew keeps what was seen of it until it tells as much, and its rows keep their keys", () => {
  const t = new Transcript();
  const told = [start("01MZ", "r"), delta("01MZ", "I "), delta("01MZ", "look."), call("01MZ", "c"), result("01MZ", "c"), delta("01MZ", "One "), delta("01MZ", "two ")];
  for (const one of told) t.apply(one);
  const before = rowsOf(t, "all");
  assert.deepEqual(texts(before), ["I look.", "tool shell.bash", "One two "]);
  for (const one of told) {
    t.apply(one);
    assert.deepEqual(texts(rowsOf(t, "all")), texts(before));
    assert.deepEqual(rowsOf(t, "all").map((row) => row.key), before.map((row) => row.key));
  }
  t.apply(delta("01MZ", "three"));
  assert.deepEqual(texts(rowsOf(t, "all")), ["I look.", "tool shell.bash", "One two three"]);
  unique(rowsOf(t, "all"));
});

test("a run that goes on after a restart keeps its complete steps, and the text of the step that is asked for once more until there is as much", () => {
  const t = new Transcript();
  for (const one of [start("01MZ", "r"), delta("01MZ", "I look."), call("01MZ", "c"), result("01MZ", "c"), delta("01MZ", "Half")]) t.apply(one);
  const seen: string[][] = [];
  for (const one of [start("01MZ", "r"), delta("01MZ", "All"), delta("01MZ", " of it.")]) {
    t.apply(one);
    seen.push(texts(rowsOf(t, "all")));
  }
  const steps = ["I look.", "tool shell.bash"];
  assert.deepEqual(seen, [[...steps, "Half"], [...steps, "Half"], [...steps, "All of it."]]);
  for (const one of [start("01MZ", "r"), delta("01MZ", "No."), frame("message.end", { message_id: "01MZ", ended_at: 9 })]) t.apply(one);
  assert.deepEqual(texts(rowsOf(t, "all")), [...steps, "No.", "end"]);
});

test("a text that frames told as one stays one row when the stored answer has it in many blocks", () => {
  const t = new Transcript();
  t.older([operator(1)], 0);
  const id = (answer(1) as { id: string }).id;
  for (const one of [start(id, "r1"), delta(id, "one two"), delta(id, " three")]) t.apply(one);
  const live = rowsOf(t, "normal");
  for (let i = 0; i < 2; i++) {
    t.newer([answer(1, [
      ...["one ", "two ", "three"].map((text) => ({ type: "text", text })), { type: "tool_call", id: "c", name: "shell.bash", input: {} },
      { type: "tool_result", tool_call_id: "c", output: "{}" }, { type: "text", text: "Closed." },
    ])]);
    assert.deepEqual(texts(rowsOf(t, "normal")), ["1: question 1", "one two three", "tool shell.bash", "Closed.", "end"]);
    assert.equal(rowsOf(t, "normal")[1]!.key, live[1]!.key);
  }
});

test("the text of an answer that was cut off stays in sight though it is not stored, also when the answer is read again", () => {
  const t = new Transcript();
  t.older([operator(1)], 0);
  const id = (answer(1) as { id: string }).id;
  for (const one of [start(id, "r1"), delta(id, "I look."), call(id, "c"), result(id, "c"), delta(id, "Half of")]) t.apply(one);
  const parts = [{ type: "text", text: "I look." }, { type: "tool_call", id: "c", name: "shell.bash", input: {} }, { type: "tool_result", tool_call_id: "c", output: "{}" }];
  const cut = { ...(answer(1, parts) as object), metadata: { provider: "p", model: "m", stop_reason: "error", error_message: "The run was cut off." } } as never;
  const live = rowsOf(t, "all");
  for (let i = 0; i < 2; i++) {
    t.newer([cut]);
    assert.deepEqual(texts(rowsOf(t, "all")), ["1: question 1", "I look.", "tool shell.bash", "Half of", "end"]);
    assert.deepEqual(rowsOf(t, "all").slice(0, 4).map((row) => row.key), live.map((row) => row.key));
  }
});

test("the stored steps of a run at work do not take away the text of the step that is not stored yet", () => {
  const t = new Transcript();
  for (const one of [start("01MZ", "r"), delta("01MZ", "I look."), call("01MZ", "c"), result("01MZ", "c"), delta("01MZ", "Half")]) t.apply(one);
  const step = (n: number, text: string) => ({ step: n, provider: "p", model: "m", created_at: n, parts: [
    { type: "text", text }, { type: "tool_call", id: n === 1 ? "c" : `c${n}`, name: "shell.bash", input: {} }, { type: "tool_result", tool_call_id: n === 1 ? "c" : `c${n}`, output: "{}" },
  ] }) as never;
  t.steps(t.logs, "01MZ", "r", [], false);
  t.steps(t.logs, "01MZ", "r", [step(1, "I look.")], false);
  assert.deepEqual(texts(rowsOf(t, "all")), ["I look.", "tool shell.bash", "Half"]);
  // Frames were missed: the stored steps tell more.
  t.steps(t.logs, "01MZ", "r", [step(1, "I look."), step(2, "Half and half.")], true);
  t.steps(t.logs, "01MZ", "r", [step(1, "I look."), step(2, "Half and half.")], false);
  assert.deepEqual(texts(rowsOf(t, "all")).slice(0, 4), ["I look.", "tool shell.bash", "Half and half.", "tool shell.bash"]);
  unique(rowsOf(t, "all"));
});

test("a child that is told anew keeps what was seen of it", () => {
  const t = new Transcript();
  const output = (text: string) => frame("subagent.output", { invocation_id: "i", kind: "text", text });
  const begun = frame("subagent.start", { invocation_id: "i", run_id: "r", name: "a", agent_path: "p/a", parent_invocation_id: null });
  for (const one of [begun, output("one "), output("two")]) t.apply(one);
  const said = () => texts(logRows(t.children.get("i")!, "all", 1));
  for (const one of [begun, output("one ")]) {
    t.apply(one);
    assert.deepEqual(said(), ["one two"]);
  }
  for (const one of [output("two"), output(" three")]) t.apply(one);
  assert.deepEqual(said(), ["one two three"]);
});

test("a message that steered a run at work is there after its frames were told anew", () => {
  const t = new Transcript();
  const id = (answer(1) as { id: string }).id;
  const delivered = frame("message.steer", { message_id: "01M00000000000000000000002X", run_id: "r1", content: "use tabs", state: "delivered", at: 2, after_step: 1 });
  t.older([operator(1)], 0);
  const told = [start(id, "r1"), call(id, "c"), result(id, "c"), delivered, delta(id, "With tabs.")];
  for (const one of told) t.apply(one);
  const want = texts(rowsOf(t, "all"));
  assert.deepEqual(want.map((text) => text.replace(/^\d/, "n")), ["n: question 1", "tool shell.bash", "n: use tabs", "With tabs."]);
  for (const one of told) {
    t.apply(one);
    assert.deepEqual(texts(rowsOf(t, "all")), want);
  }
  unique(rowsOf(t, "all"));
});
