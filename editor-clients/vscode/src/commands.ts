// The extension's commands. Those that concern the server are forwarded to it; it registers its own ids
// (`composer.snooze` and so on) while it runs, so these have names of their own.
import { commands, type Disposable, type LogOutputChannel, Uri, window, workspace } from "vscode";
import type { ServerManager } from "./manager";
import { menuEntries } from "./menu";
import { type Status, statusLine } from "./status";
import type { StatusBar } from "./statusBar";

export interface CommandContext {
  readonly extensionUri: Uri;
  readonly log: LogOutputChannel;
  readonly server: ServerManager;
  readonly statusBar: StatusBar;
}

const SNOOZE_CHOICES_MIN = [5, 15, 60, 240];
const MESSAGE_MS = 4000;

export function registerCommands(context: CommandContext): Disposable[] {
  const handlers: Record<string, (argument?: unknown) => unknown> = {
    "composer.menu": () => showMenu(context.statusBar.status),
    "composer.snoozeSuggestions": (minutes) => snooze(context, minutes),
    "composer.toggleSuggestions": () => toggle(context, "global", "Suggestions"),
    "composer.toggleSuggestionsForLanguage": (language) => toggleLanguage(context, language),
    "composer.whyThisSuggestion": () => explainSuggestion(context),
    "composer.getModel": () => forward(context, "composer.pullModel"),
    "composer.restartInferenceEngine": () => forward(context, "composer.restartEngine"),
    "composer.pauseIndexing": () => pauseIndexing(context),
    "composer.rebuildIndex": () => forward(context, "composer.index.rebuild"),
    "composer.restartServer": () => { context.server.restart(); },
    "composer.showOutput": () => { context.log.show(); },
    "composer.showEngineLog": () => showEngineLog(context),
    "composer.openSettings": () => commands.executeCommand("workbench.action.openSettings", "composer."),
    "composer.howToInstall": () => showInstallation(context.extensionUri),
  };
  return Object.entries(handlers).map(([id, handler]) => commands.registerCommand(id, handler));
}

async function showMenu(status: Status): Promise<void> {
  const languageId = window.activeTextEditor?.document.languageId;
  const chosen = await window.showQuickPick(menuEntries(status, languageId), { title: statusLine(status) });
  if (chosen !== undefined) await commands.executeCommand(chosen.command, ...chosen.args);
}

async function snooze(context: CommandContext, minutes: unknown): Promise<void> {
  const chosen = typeof minutes === "number" ? minutes : await chooseMinutes();
  if (chosen !== undefined) await forward(context, "composer.snooze", chosen);
}

async function chooseMinutes(): Promise<number | undefined> {
  const items = SNOOZE_CHOICES_MIN.map((minutes) => ({ label: `${minutes} minutes`, minutes }));
  const chosen = await window.showQuickPick(items, { title: "Composer: no suggestions for" });
  return chosen?.minutes;
}

async function toggleLanguage(context: CommandContext, language: unknown): Promise<void> {
  const id = typeof language === "string" ? language : window.activeTextEditor?.document.languageId;
  if (id === undefined) {
    void window.showInformationMessage("Composer: open a file of the language first.");
    return;
  }
  await toggle(context, `language:${id}`, `Suggestions in ${id} files`);
}

async function toggle(context: CommandContext, scope: string, what: string): Promise<void> {
  const result = await forward(context, "composer.toggle", scope);
  if (typeof result !== "object" || result === null || !("enabled" in result)) return;
  window.setStatusBarMessage(`Composer: ${what} are ${result.enabled === true ? "on" : "off"}.`, MESSAGE_MS);
}

async function pauseIndexing(context: CommandContext): Promise<void> {
  const result = await forward(context, "composer.index.pause");
  if (typeof result !== "object" || result === null || !("paused" in result)) return;
  window.setStatusBarMessage(`Composer: indexing ${result.paused === true ? "is paused" : "goes on"}.`, MESSAGE_MS);
}

async function explainSuggestion(context: CommandContext): Promise<void> {
  const result = await forward(context, "composer.explainSuggestion");
  if (typeof result !== "object" || result === null || !("markdown" in result)) return;
  const document = await workspace.openTextDocument({ language: "markdown", content: String(result.markdown) });
  await window.showTextDocument(document, { preview: true });
}

async function showEngineLog(context: CommandContext): Promise<void> {
  const result = await forward(context, "composer.showLog");
  if (typeof result !== "object" || result === null || !("path" in result)) return;
  const document = await workspace.openTextDocument(Uri.file(String(result.path)));
  await window.showTextDocument(document);
}

async function forward(context: CommandContext, command: string, ...args: (string | number)[]): Promise<unknown> {
  const server = context.server.running;
  if (server === undefined) {
    void window.showWarningMessage(statusLine(context.statusBar.status));
    return undefined;
  }
  try {
    return await server.executeCommand(command, args);
  } catch (error) {
    void window.showErrorMessage(`Composer: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

async function showInstallation(extensionUri: Uri): Promise<void> {
  const page = Uri.joinPath(extensionUri, "INSTALL.md");
  await commands.executeCommand("markdown.showPreview", page);
}
