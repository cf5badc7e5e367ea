import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { menuEntries } from "../src/menu";
import type { Status } from "../src/status";

interface Manifest {
  contributes: { commands: { command: string }[] };
}

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const STATES = ["idle", "thinking", "snoozed", "disabled", "offline", "error", "missing", "crashed"] as const;

function commandsFor(state: Status["state"], languageId?: string): string[] {
  return menuEntries({ state, message: "" }, languageId).map((entry) => [entry.command, ...entry.args].join(" "));
}

test("every entry is a command of the extension", () => {
  const declared = new Set(manifest.contributes.commands.map(({ command }) => command));
  for (const state of STATES) {
    for (const { command } of menuEntries({ state, message: "" }, "python")) assert.ok(declared.has(command), command);
  }
});

test("every state offers the log, the settings and a restart", () => {
  for (const state of STATES) {
    assert.deepEqual(commandsFor(state).slice(-3), [
      "composer.restartServer",
      "composer.showOutput",
      "composer.openSettings",
    ]);
  }
});

test("without a server only what works without one is offered", () => {
  assert.equal(commandsFor("missing", "python")[0], "composer.howToInstall");
  assert.equal(commandsFor("missing", "python").length, 4);
  assert.equal(commandsFor("crashed", "python").length, 3);
});

test("a snooze can be started or ended, never both", () => {
  assert.ok(commandsFor("idle").includes("composer.snoozeSuggestions 5"));
  assert.ok(!commandsFor("idle").includes("composer.snoozeSuggestions 0"));
  assert.ok(commandsFor("snoozed").includes("composer.snoozeSuggestions 0"));
  assert.ok(!commandsFor("snoozed").includes("composer.snoozeSuggestions 5"));
});

test("the language is that of the active editor", () => {
  assert.ok(commandsFor("idle", "rust").includes("composer.toggleSuggestionsForLanguage rust"));
  assert.ok(!commandsFor("idle").join().includes("ForLanguage"));
});
