// A folder that is not trusted cannot choose the server; once it is trusted, it can.
import { access } from "node:fs/promises";

export default async function trust(editor, { ranByFolder }) {
  await editor.waitForStatus(/Ready/);
  await editor.screenshot("untrusted");
  const ranUntrusted = await exists(ranByFolder);
  await editor.run("Workspaces: Manage Workspace Trust");
  await editor.page.getByRole("button", { name: "Trust", exact: true }).click();
  await editor.waitFor("the folder's own server", () => exists(ranByFolder));
  await editor.waitForStatus(/Ready/);
  return { ranUntrusted };
}

function exists(file) {
  return access(file).then(() => true, () => false);
}
