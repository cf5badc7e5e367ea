// The status bar's menu, as data: what is offered depends on the status.
import type { Status } from "./status";

export interface MenuEntry {
  readonly label: string;
  readonly command: string;
  readonly args: readonly (string | number)[];
}

const HOUR_MIN = 60;
const SHORT_SNOOZE_MIN = 5;

/** Entries for the menu; `languageId` is that of the active editor. */
export function menuEntries(status: Status, languageId: string | undefined): MenuEntry[] {
  return [...leading(status, languageId), ...trailing(status)];
}

function leading(status: Status, languageId: string | undefined): MenuEntry[] {
  if (status.state === "missing") {
    return [entry("question", "How to install the language server", "composer.howToInstall")];
  }
  if (status.state === "crashed") return [];
  return [
    ...snoozeEntries(status),
    status.state === "disabled"
      ? entry("play", "Turn suggestions on", "composer.toggleSuggestions")
      : entry("circle-slash", "Turn suggestions off", "composer.toggleSuggestions"),
    ...(languageId === undefined
      ? []
      : [
          entry(
            "code",
            `Turn suggestions on or off in ${languageId} files`,
            "composer.toggleSuggestionsForLanguage",
            languageId,
          ),
        ]),
    entry("debug-pause", "Pause indexing or go on", "composer.pauseIndexing"),
    entry("cloud-download", "Get the model", "composer.getModel"),
    entry("sync", "Restart the engine", "composer.restartInferenceEngine"),
  ];
}

function snoozeEntries(status: Status): MenuEntry[] {
  if (status.state === "snoozed") return [entry("bell", "End the snooze", "composer.snoozeSuggestions", 0)];
  if (status.state === "disabled") return [];
  return [
    entry("bell-slash", "Snooze for 5 minutes", "composer.snoozeSuggestions", SHORT_SNOOZE_MIN),
    entry("bell-slash", "Snooze for an hour", "composer.snoozeSuggestions", HOUR_MIN),
  ];
}

function trailing(status: Status): MenuEntry[] {
  const restart =
    status.state === "missing" ? "Look for the language server again" : "Restart the language server";
  return [
    entry("refresh", restart, "composer.restartServer"),
    entry("output", "Show the log", "composer.showOutput"),
    entry("gear", "Settings", "composer.openSettings"),
  ];
}

function entry(icon: string, label: string, command: string, ...args: (string | number)[]): MenuEntry {
  return { label: `$(${icon}) ${label}`, command, args };
}
