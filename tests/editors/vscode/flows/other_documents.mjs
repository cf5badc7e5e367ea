// Ghost text in a document that has no file yet, and in the cell of a notebook.
export default async function otherDocuments(editor, { typed, expected, notebook }) {
  await editor.waitForStatus(/Ready/);
  await editor.run("File: New Untitled Text File");
  await editor.focus();
  await editor.type(typed);
  await editor.waitForGhostText(expected);
  await editor.screenshot("untitled");

  await editor.openTab(notebook);
  await editor.page.locator(".notebook-editor .cell .monaco-editor .view-line").first().click();
  await editor.press("Control+End");
  await editor.type(typed);
  await editor.waitForGhostText(expected);
  await editor.screenshot("notebook");
}
