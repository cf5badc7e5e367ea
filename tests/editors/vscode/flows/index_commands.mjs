// Indexing is seen in the status bar, paused and gone on with by the menu, and begun anew by a command.
export default async function indexCommands(editor, { symbol }) {
  const { page } = editor;
  const progress = page.locator(".statusbar").getByText(/Indexing: [\d,]+ files done, [\d,]+ left/);
  await progress.waitFor();
  await editor.screenshot("indexing");

  await pauseOrGoOn(editor);
  await page.getByText("Composer: indexing is paused.").waitFor();
  await progress.waitFor({ state: "detached" });
  await pauseOrGoOn(editor);
  await page.getByText("Composer: indexing goes on.").waitFor();
  await editor.waitForSymbol(symbol);

  await editor.run("Composer: Rebuild the Index");
  await editor.waitForSymbol(symbol);
}

async function pauseOrGoOn(editor) {
  await editor.openMenu();
  await editor.chooseInMenu("Pause indexing or go on");
}
