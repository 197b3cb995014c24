import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const repository = join(web, "../../..");

// Everything the bundle is made of. web_test.go reads the same list.
const sources = [
  "clients/ts/src", "services/gateway/web/src", "services/gateway/web/scripts", "services/gateway/web/public", "services/gateway/web/index.html",
  "services/gateway/web/vite.config.ts", "services/gateway/web/package.json", "services/gateway/web/package-lock.json",
];

// Types leave no trace in the bundle: a new route of the API does not make it stale.
const left = "types.gen.ts";

function files(path) {
  if (!statSync(path).isDirectory()) return path.endsWith(left) ? [] : [path];
  return readdirSync(path).sort().flatMap((name) => files(join(path, name)));
}

/** sums returns a line "SHA-256  PATH" for each source file, sorted by path. */
export function sums() {
  return sources.flatMap((source) => files(join(repository, source))).map((path) => [relative(repository, path), path]).sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, path]) => `${createHash("sha256").update(readFileSync(path)).digest("hex")}  ${name}\n`).join("");
}

/** pack compresses what was built, keeps one copy of each file, and writes down what it was built from. */
export function pack() {
  return {
    name: "kaged-pack",
    apply: "build",
    closeBundle() {
      const dist = join(web, "dist");
      for (const path of files(dist)) {
        if (!/\.(js|css|svg)$/.test(path)) continue;
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        rmSync(path);
      }
      writeFileSync(join(dist, "SOURCES.sha256"), sums());
    },
  };
}
