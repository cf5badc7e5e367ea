// What the user has to act on, with the buttons to do so.
import { commands, window } from "vscode";

/** No language server was found. */
export async function notifyMissing(reason: string): Promise<void> {
  await offer(`Composer: ${reason}`, {
    "How to Install": "composer.howToInstall",
    "Try Again": "composer.restartServer",
    Settings: "composer.openSettings",
  });
}

/** The language server keeps stopping; it is being started again meanwhile. */
export async function notifyCrash(message: string): Promise<void> {
  await offer(`Composer: ${message}. It is started again after a pause.`, {
    "Show the Log": "composer.showOutput",
    "Restart Now": "composer.restartServer",
  });
}

async function offer(message: string, buttons: Record<string, string>): Promise<void> {
  const chosen = await window.showErrorMessage(message, ...Object.keys(buttons));
  const command = chosen === undefined ? undefined : buttons[chosen];
  if (command !== undefined) await commands.executeCommand(command);
}
