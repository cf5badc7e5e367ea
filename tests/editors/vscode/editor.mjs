// VS Code in a browser page, as a user drives it. Every wait is for something that shows on the screen.

const EDITOR = ".editor-group-container.active .monaco-editor";
const STATUS_BAR_ITEM = '[id="composer.composer.composer.status"]';

export class Editor {
  /** Whatever is waited for has `limitMs` to come. */
  constructor(page, screenshotFolder, limitMs) {
    this.page = page;
    this.limitMs = limitMs;
    this.screenshotFolder = screenshotFolder;
    this.statusBarItem = page.locator(STATUS_BAR_ITEM);
    this.notifications = page.locator(".notifications-toasts");
  }

  /** Opens the workbench and waits until its extensions run. */
  async open(url) {
    this.page.setDefaultTimeout(this.limitMs);
    await this.page.goto(url, { waitUntil: "domcontentloaded" });
    await this.statusBarItem.waitFor();
  }

  /** Waits until Composer's status, as screen readers hear it, matches. */
  async waitForStatus(pattern) {
    await this.waitFor(`status ${pattern}`, async () => pattern.test(await this.status()));
  }

  async status() {
    return (await this.statusBarItem.locator("a").getAttribute("aria-label")) ?? "";
  }

  /** Opens a text file of the folder by its name. */
  async openFile(name) {
    await this.openTab(name);
    await this.page.locator(`${EDITOR} .view-line`).first().waitFor();
    await this.focus();
  }

  async openTab(name) {
    await this.fillQuickInput("Control+P", name);
    // The one that Enter takes: before the list is filtered, files that were open come first.
    await this.page.locator(".quick-input-list .monaco-list-row.focused").filter({ hasText: name }).waitFor();
    await this.page.keyboard.press("Enter");
    await this.page.locator(".tab.active").filter({ hasText: name }).waitFor();
  }

  async focus() {
    await this.waitFor("the editor has the focus", async () => {
      await this.page.keyboard.press("Control+1");
      return (await this.page.locator(`${EDITOR}.focused`).count()) > 0;
    });
  }

  /** Puts the cursor after the last character of a line; lines count from 1. */
  async goToEndOfLine(line) {
    await this.fillQuickInput("Control+G", `:${line}`);
    await this.page.keyboard.press("Enter");
    await this.waitFor(`the cursor is on line ${line}`, async () => (await this.cursor()).line === line);
    await this.page.keyboard.press("End");
  }

  /** Puts the cursor before a column of a line; both count from 1. */
  async goToColumn(line, column) {
    await this.fillQuickInput("Control+G", `:${line}:${column}`);
    await this.page.keyboard.press("Enter");
    await this.waitFor(`the cursor is at ${line}:${column}`, async () => {
      const cursor = await this.cursor();
      return cursor.line === line && cursor.column === column;
    });
  }

  /** Where the status bar says the cursor is. */
  async cursor() {
    const text = (await this.page.locator('[id="status.editor.selection"]').textContent()) ?? "";
    const [, line, column] = /Ln (\d+), Col (\d+)/.exec(text) ?? [];
    return { line: Number(line), column: Number(column) };
  }

  async type(text) {
    await this.page.keyboard.type(text, { delay: 40 });
  }

  async press(key) {
    await this.page.keyboard.press(key);
  }

  /** The ghost text that shows, its lines joined; empty when none does. */
  async ghostText() {
    const parts = await this.page.locator(":is(.ghost-text-decoration, .ghost-text)").allTextContents();
    return parts.join("").replaceAll("\u00a0", " ");
  }

  async waitForGhostText(expected) {
    const matches = typeof expected === "string" ? (text) => text.includes(expected) : (text) => expected.test(text);
    await this.waitFor(`ghost text ${expected}`, async () => matches(await this.ghostText()));
    return this.ghostText();
  }

  async waitForNoGhostText() {
    await this.waitFor("no ghost text", async () => (await this.ghostText()) === "");
  }

  /** What decorations add to the text, each as it is drawn. */
  async decorations() {
    const texts = await this.page.locator(`${EDITOR} .view-line span`).evaluateAll((spans) =>
      spans.map((span) => getComputedStyle(span, "::after").content),
    );
    return texts
      .filter((text) => /^".+"$/.test(text))
      .map((text) => text.slice(1, -1).replaceAll("\u00a0", " "));
  }

  async waitForDecoration(pattern) {
    let found;
    await this.waitFor(`a decoration ${pattern}`, async () => {
      found = (await this.decorations()).find((text) => pattern.test(text));
      return found !== undefined;
    });
    return found;
  }

  async waitForNoDecoration(pattern) {
    await this.waitFor(`no decoration ${pattern}`, async () =>
      (await this.decorations()).every((text) => !pattern.test(text)),
    );
  }

  /** Waits until the search for symbols of the workspace finds a name. */
  async waitForSymbol(name) {
    await this.waitFor(`the symbol ${name}`, async () => {
      await this.fillQuickInput("Control+P", `#${name}`);
      const row = this.page.locator(".quick-input-list .monaco-list-row").filter({ hasText: name });
      const isThere = await row.first().waitFor({ timeout: 1000 }).then(() => true, () => false);
      await this.press("Escape");
      return isThere;
    });
  }

  /** Saves and waits until the tab no longer shows unsaved changes. */
  async save() {
    await this.page.locator(".tab.active.dirty").waitFor();
    await this.page.keyboard.press("Control+S");
    await this.page.locator(".tab.active:not(.dirty)").waitFor();
  }

  /** Runs a command by its title in the palette. */
  async run(title) {
    await this.fillQuickInput("F1", `>${title}`);
    await this.page.locator(".quick-input-list .monaco-list-row").getByText(title, { exact: true }).click();
  }

  /** Opens the box at the top by its key, which is lost while the workbench still loads, and fills it. */
  async fillQuickInput(key, text) {
    const input = this.page.locator(".quick-input-widget input.input");
    await this.waitFor(`the box that ${key} opens`, async () => {
      await this.page.keyboard.press(key);
      return input.waitFor({ timeout: 2000 }).then(() => true, () => false);
    });
    await input.fill(text);
  }

  /** Opens the status bar's menu; returns its title and its entries. */
  async openMenu() {
    await this.statusBarItem.click();
    const rows = this.page.locator(".quick-input-list .monaco-list-row");
    await rows.first().waitFor();
    const title = (await this.page.locator(".quick-input-title").textContent()) ?? "";
    return { title, entries: (await rows.allTextContents()).map((text) => text.trim()) };
  }

  async chooseInMenu(label) {
    await this.page.locator(".quick-input-list .monaco-list-row").getByText(label, { exact: true }).click();
  }

  async screenshot(name) {
    await this.page.screenshot({ path: `${this.screenshotFolder}/vscode-${name}.png` });
  }

  /** Asks until the answer is true; fails at the limit, saying what never came. */
  async waitFor(what, ready) {
    const deadline = Date.now() + this.limitMs;
    while (!(await ready())) {
      if (Date.now() > deadline) {
        throw new Error(`never came: ${what}; status: ${await this.status()}; ghost text: ${await this.ghostText()}`);
      }
      await this.page.waitForTimeout(50);
    }
  }
}
