// Types where a line ends, takes the ghost text with Tab, and saves.
export default async function typeAndAccept(editor, { file, line, typed, expected, screenshot }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);
  await editor.goToEndOfLine(line);
  await editor.type(typed);
  const ghostText = await editor.waitForGhostText(new RegExp(expected));
  if (screenshot) await editor.screenshot(screenshot);
  await editor.press("Tab");
  await editor.waitForNoGhostText();
  await editor.save();
  if (screenshot) await editor.screenshot(`${screenshot}-accepted`);
  return { ghostText };
}
