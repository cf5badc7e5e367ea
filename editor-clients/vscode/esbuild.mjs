// Bundles the extension into out/extension.js; with --tests, every test into out/test/.
import { mkdirSync, readdirSync } from "node:fs";
import { build } from "esbuild";

const tests = process.argv.includes("--tests");
const production = process.argv.includes("--production");

await build({
  bundle: true,
  platform: "node",
  // The Node of VS Code 1.91, the oldest that package.json allows.
  target: "node20",
  logLevel: "warning",
  external: ["vscode"],
  ...(tests
    ? {
        entryPoints: readdirSync("test").map((name) => `test/${name}`),
        outdir: "out/test",
        format: "esm",
        outExtension: { ".js": ".mjs" },
        sourcemap: "inline",
      }
    : {
        entryPoints: ["src/extension.ts"],
        outfile: "out/extension.js",
        format: "cjs",
        minify: production,
        sourcemap: production ? false : "linked",
      }),
});

if (production) mkdirSync("../../build", { recursive: true });
