import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { RestWatch } from "../src/rest";

beforeEach(() => { mock.timers.enable({ apis: ["setTimeout"] }); });
afterEach(() => { mock.timers.reset(); });

test("one rest after many moves", () => {
  let numRests = 0;
  const watch = new RestWatch(() => { numRests += 1; });
  for (let index = 0; index < 5; index += 1) {
    watch.moved();
    mock.timers.tick(400);
  }
  assert.equal(numRests, 0);
  mock.timers.tick(100);
  assert.equal(numRests, 1);
  mock.timers.tick(10_000);
  assert.equal(numRests, 1);
});

test("no rest after the end", () => {
  let numRests = 0;
  const watch = new RestWatch(() => { numRests += 1; });
  watch.moved();
  watch.dispose();
  mock.timers.tick(10_000);
  assert.equal(numRests, 0);
});
