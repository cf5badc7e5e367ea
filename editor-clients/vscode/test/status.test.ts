import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerStatus, type Status, statusLine, statusView } from "../src/status";

const views: [status: Status, text: string, severity: string][] = [
  [{ state: "idle", message: "Ready" }, "$(sparkle) Composer", "none"],
  [{ state: "thinking", message: "" }, "$(loading~spin) Composer", "none"],
  [{ state: "downloading", message: "", percent: 41.7 }, "$(cloud-download) Composer: downloading 41%", "none"],
  [{ state: "snoozed", message: "" }, "$(bell-slash) Composer: snoozed", "none"],
  [{ state: "disabled", message: "" }, "$(circle-slash) Composer: off", "none"],
  [{ state: "offline", message: "" }, "$(debug-disconnect) Composer: offline", "warning"],
  [{ state: "missing", message: "" }, "$(warning) Composer: not installed", "warning"],
  [{ state: "error", message: "no room on the disk" }, "$(error) Composer: error", "error"],
  [{ state: "crashed", message: "" }, "$(error) Composer: stopped", "error"],
];
for (const [status, text, severity] of views) {
  test(`shows ${status.state}`, () => {
    const view = statusView(status);
    assert.equal(view.text, text);
    assert.equal(view.severity, severity);
  });
}

test("tells the error's own text and the model", () => {
  assert.equal(statusLine({ state: "error", message: "no room on the disk" }), "Composer: no room on the disk");
  assert.equal(statusLine({ state: "idle", message: "Ready", model: "small" }), "Composer: Ready (small)");
  assert.equal(statusLine({ state: "snoozed", message: "" }), "Composer: snoozed");
});

test("reads a status that the server sends", () => {
  const sent = { state: "loading", message: "Loading", percent: 3, model: "small", later: "field" };
  assert.deepEqual(parseServerStatus(sent), { state: "loading", message: "Loading", percent: 3, model: "small" });
  assert.deepEqual(parseServerStatus({ state: "idle", percent: null }), { state: "idle", message: "" });
});

for (const value of [undefined, null, "idle", {}, { state: "flying" }, { state: "missing" }]) {
  test(`refuses ${JSON.stringify(value)} as a status`, () => {
    assert.equal(parseServerStatus(value), undefined);
  });
}
