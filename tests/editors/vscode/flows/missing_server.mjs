// Without a server the user is told, shown how to install one, and "Try Again" finds it.
import { symlink } from "node:fs/promises";

export default async function missingServer(editor, { missing, server }) {
  await editor.waitForStatus(/not a program/);
  const message = editor.notifications.filter({ hasText: "composer.server.command" });
  await message.waitFor();
  await editor.screenshot("server-missing");
  const { entries } = await editor.openMenu();
  await editor.press("Escape");

  await message.getByRole("button", { name: "How to Install" }).click();
  await editor.page.locator(".tab.active").filter({ hasText: "INSTALL" }).waitFor();
  await editor.page
    .frameLocator("iframe.webview.ready")
    .frameLocator("iframe")
    .getByText("Installing Composer's language server")
    .waitFor();
  await editor.screenshot("how-to-install");

  await editor.run("Composer: Restart the Language Server");
  await message.getByRole("button", { name: "Try Again" }).waitFor();
  await symlink(server, missing);
  await message.getByRole("button", { name: "Try Again" }).click();
  await editor.waitForStatus(/Ready/);
  return { entries };
}
