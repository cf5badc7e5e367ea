// node run_flow.mjs FLOW OPTIONS: runs flows/FLOW.mjs in a new browser and prints what it returns, as JSON.
// OPTIONS, as JSON: {url, testbed, screenshots, limitMs, arguments}.
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Editor } from "./editor.mjs";

const [, , name, options] = process.argv;
const { url, testbed, screenshots, limitMs, arguments: flowArguments } = JSON.parse(options);
const { chromium } = createRequire(`${testbed}/`)("playwright-core");
const { default: flow } = await import(`./flows/${name}.mjs`);

const profile = await mkdtemp(join(tmpdir(), "c-chromium-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: "/usr/bin/chromium",
  headless: true,
  viewport: { width: 1200, height: 720 },
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
// Nothing outside this machine is needed, and nothing may be asked for.
await browser.route((each) => each.hostname !== "127.0.0.1", (route) => route.abort());
const editor = new Editor(await browser.newPage(), screenshots, limitMs);
try {
  await editor.open(url);
  const result = await flow(editor, flowArguments);
  console.log(JSON.stringify(result ?? null));
} catch (error) {
  await editor.screenshot(`failed-${name}`);
  throw error;
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
}
