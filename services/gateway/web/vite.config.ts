import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { pack } from "./scripts/pack.js";
import { railMarkup } from "./scripts/rail";

// Names are stable: the gateway serves them with an ETag, and a commit of dist is a diff of few files.
export default defineConfig({
  plugins: [
    svelte({ compilerOptions: { fragments: "tree", modernAst: true } }),
    { name: "kaged-rail", transformIndexHtml: (html) => html.replace("<!-- rail -->", railMarkup()) },
    pack(),
  ],
  resolve: { alias: { "@kaged/client": fileURLToPath(new URL("../../../clients/ts/src/index.ts", import.meta.url)) } },
  base: "/static/",
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    outDir: "dist",
    assetsDir: ".",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 600,
    cssCodeSplit: false,
    rolldownOptions: {
      output: { entryFileNames: "console.js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
});
