// A server that stops at once is told in its own words and started again until it is mended; one that is killed
// comes back unnoticed.
import { readFile, rm } from "node:fs/promises";

export default async function crashes(editor, { broken, pids, error, file, typed, expected }) {
  await editor.waitForStatus(new RegExp(error));
  const message = editor.notifications.filter({ hasText: error });
  await message.waitFor();
  await editor.screenshot("server-crashes");
  await rm(broken);
  await editor.waitForStatus(/Ready/);
  await editor.run("Notifications: Clear All Notifications");
  await message.waitFor({ state: "detached" });

  const before = await started(pids);
  process.kill(before.at(-1), "SIGKILL");
  await editor.waitFor("another server", async () => (await started(pids)).length > before.length);
  await editor.waitForStatus(/Ready/);
  await editor.openFile(file);
  await editor.type(typed);
  await editor.waitForGhostText(expected);
  return { numMessages: await editor.notifications.locator(".notification-list-item").count() };
}

async function started(pids) {
  return (await readFile(pids, "utf8")).trim().split("\n").map(Number);
}
