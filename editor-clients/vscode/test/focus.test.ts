import assert from "node:assert/strict";
import { test } from "node:test";
import { FocusWatch } from "../src/focus";

const cases: [name: string, atFirst: boolean, states: boolean[], numCalls: number][] = [
  ["away and back", true, [false, true], 1],
  ["other changes while it is in front", true, [true, true], 0],
  ["other changes while it is behind", true, [false, false], 0],
  ["started behind", false, [true], 1],
  ["to and fro", true, [false, true, true, false, true], 2],
];
for (const [name, atFirst, states, numCalls] of cases) {
  test(`focus: ${name}`, () => {
    let count = 0;
    const watch = new FocusWatch(atFirst, () => { count += 1; });
    for (const state of states) watch.update(state);
    assert.equal(count, numCalls);
  });
}
