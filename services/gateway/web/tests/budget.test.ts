import assert from "node:assert/strict";
import { test } from "node:test";
import { budgetWith } from "../src/lib/budget";

test("another limit in US dollars keeps the other limits of a session", () => {
  const limit = { usd: 2, tokens: 5000, calls: 9, walltime_ms: 60000, unpriced: "allow" };
  assert.deepEqual(budgetWith(limit, "3.5"), { usd: 3.5, tokens: 5000, calls: 9, walltime_ms: 60000, unpriced: "allow" });
  assert.deepEqual(budgetWith(limit, ""), { tokens: 5000, calls: 9, walltime_ms: 60000, unpriced: "allow" });
  assert.deepEqual(budgetWith(undefined, "1"), { usd: 1 });
  assert.equal(budgetWith({ usd: 2, unpriced: "allow" }, ""), null);
  assert.deepEqual(budgetWith({ usd: 2 }, "0"), { usd: 0 }, "the server refuses a limit of nothing; it is not the same as none");
});
