// The status bar's menu: snooze and its end, off and on, off in one language.
export default async function menu(editor, { file, typed, expected }) {
  await editor.openFile(file);
  await editor.waitForStatus(/Ready/);

  const idle = await editor.openMenu();
  await editor.screenshot("menu");
  await editor.chooseInMenu("Snooze for 5 minutes");
  await editor.waitForStatus(/snoozed/i);
  await editor.screenshot("snoozed");
  const snoozed = await editor.openMenu();
  await editor.chooseInMenu("End the snooze");
  await editor.waitForStatus(/Ready/);

  await editor.openMenu();
  await editor.chooseInMenu("Turn suggestions off");
  await editor.waitForStatus(/off/i);
  await editor.focus();
  await editor.type(typed);
  // An explicit request is answered even so, which shows that it is the typing that was not.
  const whileOff = await editor.ghostText();
  await editor.run("Trigger Inline Suggestion");
  await editor.waitForGhostText(expected);
  await editor.press("Escape");
  await editor.waitForNoGhostText();
  const off = await editor.openMenu();
  await editor.chooseInMenu("Turn suggestions on");
  await editor.waitForStatus(/Ready/);

  await editor.run("Composer: Turn Suggestions On or Off in This Language");
  await editor.page.getByText("Suggestions in python files are off").waitFor();
  await editor.run("Composer: Turn Suggestions On or Off in This Language");
  await editor.page.getByText("Suggestions in python files are on").waitFor();
  return { idle, snoozed, off, whileOff };
}
