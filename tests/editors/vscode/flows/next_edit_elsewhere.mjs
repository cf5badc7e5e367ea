// Renames a function where it is defined, and follows the next edit into another file.
export default async function nextEditElsewhere(editor, { file, column, length, name, other, line }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);
  await editor.waitForSymbol("area");
  await editor.focus();
  await editor.goToColumn(1, column);
  for (let index = 0; index < length; index++) await editor.press("Shift+ArrowRight");
  await editor.type(name);
  await editor.waitForDecoration(new RegExp(`Tab: .*, ${other} line ${line}$`));
  await editor.press("Tab");
  await editor.page.locator(".tab.active").filter({ hasText: other }).waitFor();
  await editor.waitForDecoration(new RegExp(`^${name}$`));
  await editor.screenshot("next-edit-elsewhere");
  await editor.press("Tab");
  await editor.waitForNoDecoration(new RegExp(`^${name}$`));
  await editor.save();
  await editor.openTab(file);
  await editor.save();
}
