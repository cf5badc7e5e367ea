// A file that changed without an event is found after the window was away and comes back.
import { writeFile } from "node:fs/promises";

export default async function indexFocus(editor, { known, elsewhere, text, changed, later, laterText, laterSymbol }) {
  await editor.waitForStatus(/\S/);
  await editor.waitForSymbol(known);

  const other = await editor.page.context().newPage();
  await look(other, editor.page);
  await writeFile(elsewhere, text);
  await writeFile(later, laterText);
  await look(editor.page, other);
  await editor.waitForSymbol(laterSymbol);
  await editor.waitForSymbol(changed);
}

/** Turns to a page and away from the other, as a window's pages see it. */
async function look(to, from) {
  await focus(from, false);
  await to.bringToFront();
  await focus(to, true);
}

/** Chromium's driver lets every page believe that it has the focus; this says otherwise. */
async function focus(page, isFocused) {
  await page.evaluate((value) => {
    document.hasFocus = () => value;
    window.dispatchEvent(new Event(value ? "focus" : "blur"));
  }, isFocused);
}
