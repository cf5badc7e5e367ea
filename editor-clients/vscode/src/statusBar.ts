import { type Disposable, StatusBarAlignment, type StatusBarItem, ThemeColor, window } from "vscode";
import { type Status, statusView } from "./status";

const BACKGROUNDS = {
  none: undefined,
  warning: new ThemeColor("statusBarItem.warningBackground"),
  error: new ThemeColor("statusBarItem.errorBackground"),
};

/** The status bar item; a click opens the menu. */
export class StatusBar implements Disposable {
  readonly #item: StatusBarItem;
  #status: Status = { state: "starting", message: "" };

  constructor() {
    this.#item = window.createStatusBarItem("composer.status", StatusBarAlignment.Right, 100);
    this.#item.name = "Composer";
    this.#item.command = "composer.menu";
    this.show(this.#status);
    this.#item.show();
  }

  get status(): Status {
    return this.#status;
  }

  show(status: Status): void {
    const { text, tooltip, severity } = statusView(status);
    this.#status = status;
    this.#item.text = text;
    this.#item.tooltip = tooltip;
    this.#item.backgroundColor = BACKGROUNDS[severity];
    this.#item.accessibilityInformation = { label: tooltip, role: "button" };
  }

  dispose(): void {
    this.#item.dispose();
  }
}
