// "Why This Suggestion?" opens a document that tells it.
export default async function why(editor, { file, line, typed, expected, told }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);
  await editor.goToEndOfLine(line);
  await editor.type(typed);
  await editor.waitForGhostText(new RegExp(expected));
  await editor.run("Composer: Why This Suggestion?");
  await editor.page.locator(".view-lines").filter({ hasText: new RegExp(told.replaceAll(" ", "\\s")) }).first().waitFor();
}
