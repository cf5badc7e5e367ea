// Shows the next edit in the editor: its place by decorations, a hint at the cursor, a jump, and taking it.
// VS Code's own view of edits elsewhere is no stable API yet.
import {
  commands,
  languages,
  type LogOutputChannel,
  Position,
  Range,
  Selection,
  type TextDocument,
  type TextEditor,
  ThemeColor,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Server } from "./client";
import { endOf, hintOf, isTabWanted, type NextEdit, parseNextEdit, type Place, shownOf } from "./nextEdit";

const REQUEST = "composer/nextEdit";
const DID_SHOW = "textDocument/didShowInlineEdit";
const DISMISSED = "composer.nextEdit.dismissed";
const SHOWN_KEY = "composer.nextEditShown";
const TAB_KEY = "composer.nextEditOnTab";
const PAUSE_MS = 400;
const MAX_DIAGNOSTICS = 50;
const INVOKED = 1;
const AUTOMATIC = 2;

export class NextEdits {
  readonly #server: () => Server | undefined;
  readonly #log: LogOutputChannel;
  readonly #subscriptions: { dispose: () => unknown }[];
  readonly #deleted = window.createTextEditorDecorationType({
    backgroundColor: new ThemeColor("diffEditor.removedTextBackground"),
    overviewRulerColor: new ThemeColor("editorOverviewRuler.modifiedForeground"),
    textDecoration: "line-through",
  });
  readonly #inserted = window.createTextEditorDecorationType({});
  readonly #hint = window.createTextEditorDecorationType({});
  #shown: NextEdit | undefined;
  #timer: NodeJS.Timeout | undefined;
  #numAsked = 0;

  constructor(server: () => Server | undefined, log: LogOutputChannel) {
    this.#server = server;
    this.#log = log;
    this.#subscriptions = [
      this.#deleted,
      this.#inserted,
      this.#hint,
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0) this.#onChange(document);
      }),
      window.onDidChangeTextEditorSelection(() => { this.#draw(); }),
      window.onDidChangeActiveTextEditor(() => { this.#draw(); }),
      commands.registerCommand("composer.takeNextEdit", () => this.#take()),
      commands.registerCommand("composer.dismissNextEdit", () => this.#dismiss()),
      commands.registerCommand("composer.askForNextEdit", () => this.#ask(INVOKED)),
    ];
  }

  dispose(): void {
    clearTimeout(this.#timer);
    for (const each of this.#subscriptions) each.dispose();
  }

  #onChange(document: TextDocument): void {
    if (this.#shown !== undefined && document.uri.toString() === this.#shown.uri) this.#show(undefined);
    if (document === window.activeTextEditor?.document) this.#askSoon(PAUSE_MS);
  }

  #askSoon(waitMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(AUTOMATIC), waitMs);
  }

  async #ask(triggerKind: number): Promise<void> {
    clearTimeout(this.#timer);
    const server = this.#server();
    const editor = window.activeTextEditor;
    if (server === undefined || editor === undefined) return;
    const { document } = editor;
    const { version } = document;
    const number = ++this.#numAsked;
    let answer: unknown;
    try {
      answer = await server.request(REQUEST, {
        textDocument: { uri: server.uriOf(document), version },
        position: placeOf(editor.selection.active),
        context: { triggerKind, diagnostics: diagnosticsOf(document) },
      });
    } catch (error) {
      // A document that the server does not follow, or a server that just left.
      this.#log.debug(`There is no next edit: ${String(error)}`);
      return;
    }
    if (number !== this.#numAsked || document.version !== version) return;
    const edit = parseNextEdit(answer);
    this.#show(edit);
    if (edit !== undefined) void server.notify(DID_SHOW, { item: { command: edit.command } });
    else if (triggerKind === INVOKED) window.setStatusBarMessage("Composer: there is no next edit.", 4000);
  }

  #show(edit: NextEdit | undefined): void {
    this.#shown = edit;
    this.#draw();
  }

  #draw(): void {
    const active = window.activeTextEditor;
    for (const editor of window.visibleTextEditors) {
      const edit = this.#editIn(editor.document);
      const shown = edit === undefined ? undefined : shownOf(edit);
      const at = edit === undefined ? 0 : editor.document.offsetAt(positionOf(edit.start));
      const range = shown === undefined ? undefined : rangeOf(editor.document, at, shown.deletedFrom, shown.deletedTo);
      editor.setDecorations(this.#deleted, range === undefined || range.isEmpty ? [] : [range]);
      editor.setDecorations(
        this.#inserted,
        range === undefined || shown === undefined ? [] : [insertion(range.end, shown.inserted)],
      );
      editor.setDecorations(this.#hint, editor === active ? this.#hintFor(editor) : []);
    }
    const isShown = this.#shown !== undefined && active !== undefined;
    void commands.executeCommand("setContext", SHOWN_KEY, isShown);
    void commands.executeCommand("setContext", TAB_KEY, isShown && this.#isTabWanted(active));
  }

  #hintFor(editor: TextEditor): { range: Range; renderOptions: object }[] {
    const edit = this.#shown;
    const cursor = editor.selection.active;
    if (edit === undefined || this.#isAt(editor)) return [];
    const isHere = sameDocument(editor.document, edit);
    const name = isHere ? undefined : edit.uri.slice(edit.uri.lastIndexOf("/") + 1);
    const { end } = editor.document.lineAt(cursor.line).range;
    const after = {
      contentText: hintOf(edit, name === undefined ? undefined : decodeURIComponent(name)),
      color: new ThemeColor("editorCodeLens.foreground"),
      margin: "0 0 0 2em",
    };
    return [{ range: new Range(end, end), renderOptions: { after } }];
  }

  /** The next edit, if it is of this document as it is now. */
  #editIn(document: TextDocument): NextEdit | undefined {
    const edit = this.#shown;
    return edit !== undefined && sameDocument(document, edit) && edit.version === document.version ? edit : undefined;
  }

  #isAt(editor: TextEditor): boolean {
    return this.#editIn(editor.document)?.start.line === editor.selection.active.line;
  }

  #isTabWanted(editor: TextEditor): boolean {
    const cursor = editor.selection.active;
    const start = this.#editIn(editor.document)?.start;
    const isAtStart = start !== undefined && cursor.isEqual(positionOf(start));
    return isTabWanted(editor.document.lineAt(cursor.line).text.slice(0, cursor.character), isAtStart);
  }

  /** Jumps to the next edit, or takes it where the cursor is there already. */
  async #take(): Promise<void> {
    const edit = this.#shown;
    const editor = window.activeTextEditor;
    if (edit === undefined || editor === undefined) return;
    if (this.#isAt(editor)) await this.#accept(editor, edit);
    else await this.#jump(edit);
  }

  async #accept(editor: TextEditor, edit: NextEdit): Promise<void> {
    const range = new Range(positionOf(edit.start), positionOf(edit.end));
    this.#show(undefined);
    if (!(await editor.edit((builder) => { builder.replace(range, edit.newText); }))) return;
    const end = positionOf(endOf(edit.start, edit.newText));
    editor.selection = new Selection(end, end);
    await this.#run(edit.command.command, edit.command.arguments);
    await this.#ask(AUTOMATIC);
  }

  async #jump(edit: NextEdit): Promise<void> {
    const start = positionOf(edit.start);
    const editor = await window.showTextDocument(Uri.parse(edit.uri), { selection: new Range(start, start) });
    // Nothing is known of the place in a file that was not open; there it is asked for again.
    if (this.#editIn(editor.document) === undefined) await this.#ask(AUTOMATIC);
    else this.#draw();
  }

  async #dismiss(): Promise<void> {
    const edit = this.#shown;
    clearTimeout(this.#timer);
    this.#show(undefined);
    if (edit !== undefined) await this.#run(DISMISSED, [edit.id]);
  }

  async #run(command: string, args: readonly string[]): Promise<void> {
    try {
      await this.#server()?.executeCommand(command, [...args]);
    } catch (error) {
      this.#log.warn(`${command}: ${String(error)}`);
    }
  }
}

function sameDocument(document: TextDocument, edit: NextEdit): boolean {
  return document.uri.toString() === Uri.parse(edit.uri).toString();
}

function rangeOf(document: TextDocument, at: number, from: number, to: number): Range {
  return new Range(document.positionAt(at + from), document.positionAt(at + to));
}

function insertion(at: Position, contentText: string): { range: Range; renderOptions: object } {
  const after = {
    contentText,
    backgroundColor: new ThemeColor("diffEditor.insertedTextBackground"),
    color: new ThemeColor("editor.foreground"),
  };
  return { range: new Range(at, at), renderOptions: { after } };
}

function diagnosticsOf(document: TextDocument): object[] {
  return languages
    .getDiagnostics(document.uri)
    .slice(0, MAX_DIAGNOSTICS)
    .map(({ range, severity, message, source }) => ({
      range: { start: placeOf(range.start), end: placeOf(range.end) },
      severity: severity + 1,
      message,
      source: source ?? "",
    }));
}

function placeOf({ line, character }: Position): Place {
  return { line, character };
}

function positionOf({ line, character }: Place): Position {
  return new Position(line, character);
}
