import assert from "node:assert/strict";
import { test } from "node:test";
import { gist } from "../src/lib/audit";
import { agentCost, costText, total } from "../src/lib/cost";
import { triedOf } from "../src/lib/tried";

const entry = (id: string, event_type: string, agent_path: string, payload: object) => ({ id, event_type, agent_path, payload, ts: Number(id) }) as never;

test("attempts of one agent are joined by target and outcome, the newest first", () => {
  const list = triedOf([
    entry("5", "net.denied", "primary", { target: "a:1", rule: "none", count: 2 }), entry("4", "net.allowed", "primary", { target: "b:2", rule: "b:2" }),
    entry("3", "net.denied", "primary.subagents.other", { target: "c:3", count: 9 }), entry("2", "net.denied", "primary", { target: "a:1", rule: "none", count: 1 }), entry("1", "net.omitted", "primary", { denied: 4 }),
  ], "primary");
  assert.deepEqual(list.map((one) => [one.target, one.allowed, one.count, one.at]), [["a:1", false, 3, 5], ["b:2", true, 1, 4]]);
});

test("an unknown price shows tokens and never $0", () => {
  assert.equal(costText({ usd: 0, tokens: 1200 }), "1.2k tokens");
  assert.equal(costText({ usd: 0.5, tokens: 1200 }), "$0.50");
  assert.equal(costText({ usd: 0, tokens: 0 }), "");
  assert.equal(costText(total([{ agent_path: "a", usd: 1, tokens: 2, calls: 1 }, { agent_path: "b", usd: 0.25, tokens: 2, calls: 1 }])), "$1.25");
});

test("an agent at work costs what its path has used without the invocations that ended", () => {
  const agent = (state: string, cost_usd?: number) => ({ invocation_id: state, parent_invocation_id: null, name: "b", agent_path: "b", state, action: "", cost_usd, tokens_in: cost_usd ? 10 : 0, tokens_out: 0 }) as never;
  const uses = [{ agent_path: "b", usd: 0.75, tokens: 40, calls: 3 }];
  assert.equal(agentCost(agent("running"), [agent("completed", 0.5), agent("running")], uses), "$0.25");
  assert.equal(agentCost(agent("running"), [agent("running"), agent("pending")], uses), "$0.75 by 2");
  assert.equal(agentCost(agent("completed", 0.5), [], uses), "$0.50");
  assert.equal(agentCost(agent("running"), [agent("completed", 0.75), agent("running")], uses), "30 tokens");
});

test("an audit entry says in one line what it is about", () => {
  assert.equal(gist({ call_id: "c", params: { command: "sleep 300\nrm x" }, tool_name: "shell.bash" }), "shell.bash · sleep 300");
  assert.equal(gist({ tool_name: "shell.bash", success: false, error_code: "cancelled", duration_ms: 3744 }), "shell.bash · cancelled · 3.7 s");
  assert.equal(gist({ outcome: "completed", steps: 1 }), "completed");
  for (const odd of [null, undefined, "text", 7, [], { path: { deep: [1] }, name: null }]) assert.equal(typeof gist(odd), "string");
  assert.equal(gist({}), "");
});
