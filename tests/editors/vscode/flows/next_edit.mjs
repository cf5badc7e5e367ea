// Renames a function where it is defined, follows the next edit to its uses with Tab, and saves.
export default async function nextEdit(editor, { file, column, length, name, hints, dismissed }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);
  await editor.goToColumn(1, column);
  for (let index = 0; index < length; index++) await editor.press("Shift+ArrowRight");
  await editor.type(name);
  const seen = [];
  for (const { line, inserted, tabFile } of hints) {
    seen.push(await editor.waitForDecoration(new RegExp(`Tab: .*line ${line}$`)));
    await editor.press("Tab");
    if (tabFile) await editor.page.locator(".tab.active").filter({ hasText: tabFile }).waitFor();
    await editor.waitFor(`the jump to line ${line}`, async () => (await editor.cursor()).line === line);
    await editor.waitForDecoration(new RegExp(`^${inserted}$`));
    await editor.screenshot(`next-edit-${line}`);
    if (dismissed) break;
    await editor.press("Tab");
    await editor.waitFor("the edit", async () => (await editor.cursor()).column > 1 + name.length);
  }
  if (dismissed) {
    await editor.press("Escape");
    await editor.waitForNoDecoration(/./);
    await editor.press("End");
    await editor.press("Tab");
    await editor.type("# here");
  }
  await editor.save();
  return seen;
}
