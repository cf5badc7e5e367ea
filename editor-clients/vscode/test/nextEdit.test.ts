import assert from "node:assert/strict";
import { test } from "node:test";
import { endOf, hintOf, isTabWanted, parseNextEdit, shownOf } from "../src/nextEdit";

const ANSWER = {
  id: "next-edit-1",
  kind: "rename",
  title: "Rename area to surface",
  textDocument: { uri: "file:///w/a.py", version: 2 },
  range: { start: { line: 3, character: 6 }, end: { line: 3, character: 10 } },
  oldText: "area",
  newText: "surface",
  command: { title: "", command: "composer.nextEdit.accepted", arguments: ["next-edit-1"] },
};

test("next edit: the server's answer", () => {
  const edit = parseNextEdit(ANSWER);
  assert.equal(edit?.version, 2);
  assert.deepEqual(edit.start, { line: 3, character: 6 });
  assert.deepEqual(edit.command.arguments, ["next-edit-1"]);
  assert.equal(parseNextEdit({ ...ANSWER, textDocument: { uri: "file:///b", version: null } })?.version, undefined);
});

for (const answer of [null, undefined, {}, "x", { ...ANSWER, range: {} }, { ...ANSWER, newText: 1 }]) {
  test(`next edit: no answer: ${JSON.stringify(answer)}`, () => {
    assert.equal(parseNextEdit(answer), undefined);
  });
}

const drawn: [name: string, oldText: string, newText: string, from: number, to: number, inserted: string][] = [
  ["another word", "area", "surface", 0, 4, "surface"],
  ["a longer word", "area", "areas", 4, 4, "s"],
  ["in the middle", 'get("z")', 'get("z", 5)', 7, 7, ",\u00a05"],
  ["a line that goes", "import os\n", "", 0, 10, ""],
  ["lines that come", "", "a\r\n\tb", 0, 0, "a⏎\u00a0\u00a0\u00a0\u00a0b"],
  ["half of a character in common", "😀", "😁", 0, 2, "😁"],
  ["a letter twice", "aa", "aaa", 2, 2, "a"],
];
for (const [name, oldText, newText, deletedFrom, deletedTo, inserted] of drawn) {
  test(`next edit: drawn: ${name}`, () => {
    assert.deepEqual(shownOf({ oldText, newText }), { deletedFrom, deletedTo, inserted });
  });
}

test("next edit: the hint", () => {
  const edit = parseNextEdit(ANSWER);
  assert.ok(edit !== undefined);
  assert.equal(hintOf(edit, undefined), "Tab: Rename area to surface, line 4");
  assert.equal(hintOf(edit, "b.py"), "Tab: Rename area to surface, b.py line 4");
});

test("next edit: Tab indents where it would", () => {
  assert.equal(isTabWanted("    ", false), false);
  assert.equal(isTabWanted("", true), true);
  assert.equal(isTabWanted("  x", false), true);
});

test("next edit: where the text ends", () => {
  assert.deepEqual(endOf({ line: 1, character: 2 }, "abc"), { line: 1, character: 5 });
  assert.deepEqual(endOf({ line: 1, character: 2 }, "a\r\nbc"), { line: 2, character: 2 });
});
