import { readdirSync } from "node:fs";

// The sources are TypeScript without file endings, which Node 20 does not run: the tests are bundled first.
export default {
  input: Object.fromEntries(readdirSync(import.meta.dirname).filter((name) => name.endsWith(".test.ts")).map((name) => [name.replace(".ts", ""), `${import.meta.dirname}/${name}`])),
  platform: "node",
  external: [/^node:/],
  output: { dir: "node_modules/.tests", format: "esm", entryFileNames: "[name].mjs" },
};
