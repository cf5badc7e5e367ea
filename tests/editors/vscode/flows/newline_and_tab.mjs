// Tab indents where a suggestion shows whose indentation it can give, and where nothing shows; then it accepts.
export default async function newlineAndTab(editor, { file, suggestion }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);
  await editor.type("x = 1");
  await editor.press("Enter");
  await editor.press("Tab");
  await editor.waitFor("the empty line is indented", async () => (await editor.cursor()).column === 5);
  await editor.press("Backspace");
  await editor.type("def area(w, h):");
  await editor.press("Enter");
  await editor.waitForGhostText(suggestion);
  await editor.press("Tab");
  await editor.waitFor("the line is indented", async () => (await editor.cursor()).column === 5);
  const afterFirstTab = await editor.waitForGhostText(suggestion.trim());
  await editor.press("Tab");
  await editor.waitForNoGhostText();
  await editor.save();
  return { afterFirstTab };
}
