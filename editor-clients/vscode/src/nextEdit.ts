// The next edit as the server tells it, and how it is shown; free of VS Code.

export interface Place {
  readonly line: number;
  readonly character: number;
}

export interface NextEdit {
  readonly id: string;
  readonly title: string;
  readonly uri: string;
  /** Undefined of a file that is not open. */
  readonly version: number | undefined;
  readonly start: Place;
  readonly end: Place;
  readonly oldText: string;
  readonly newText: string;
  readonly command: { readonly command: string; readonly arguments: readonly string[] };
}

/** What is drawn: the part that goes, as offsets into the old text, and the text that comes behind it. */
export interface Shown {
  readonly deletedFrom: number;
  readonly deletedTo: number;
  readonly inserted: string;
}

/** The server's answer; undefined where it is none, or of an unknown form. */
export function parseNextEdit(answer: unknown): NextEdit | undefined {
  const { id, title, textDocument, range, oldText, newText, command } = fields(answer);
  const { uri, version } = fields(textDocument);
  const start = place(fields(range).start);
  const end = place(fields(range).end);
  const run = fields(command);
  const args: unknown = run.arguments;
  if (!areTexts(id, title, uri, oldText, newText, run.command) || start === undefined || end === undefined) {
    return undefined;
  }
  return {
    id: String(id),
    title: String(title),
    uri: String(uri),
    version: typeof version === "number" ? version : undefined,
    start,
    end,
    oldText: String(oldText),
    newText: String(newText),
    command: { command: String(run.command), arguments: Array.isArray(args) ? args.map(String) : [] },
  };
}

/** What old and new text begin and end with in common is not drawn; lines that come are joined by a mark. */
export function shownOf({ oldText, newText }: Pick<NextEdit, "oldText" | "newText">): Shown {
  const isOneLine = !oldText.includes("\n") && !newText.includes("\n");
  const head = isOneLine ? commonLength(oldText, newText) : 0;
  const tail = isOneLine ? commonEndLength(oldText.slice(head), newText.slice(head)) : 0;
  const inserted = newText.slice(head, newText.length - tail);
  return {
    deletedFrom: head,
    deletedTo: oldText.length - tail,
    // Blanks at the ends of a decoration's text would be lost.
    inserted: inserted.replaceAll(/\r?\n/g, "⏎").replaceAll("\t", "    ").replaceAll(" ", "\u00a0"),
  };
}

/** What the key does, for who looks elsewhere. */
export function hintOf({ title, start }: NextEdit, otherFile: string | undefined): string {
  return `Tab: ${title}, ${otherFile === undefined ? "" : `${otherFile} `}line ${start.line + 1}`;
}

/** Whether Tab is for the next edit, and not meant to indent. */
export function isTabWanted(before: string, isAtStart: boolean): boolean {
  return isAtStart || before.trim() !== "";
}

/** Where a text ends that is put at a place. */
export function endOf(start: Place, text: string): Place {
  const lines = text.split(/\r?\n/);
  const last = lines[lines.length - 1] ?? "";
  return lines.length === 1
    ? { line: start.line, character: start.character + last.length }
    : { line: start.line + lines.length - 1, character: last.length };
}

function commonLength(one: string, other: string): number {
  let length = 0;
  for (const char of one) {
    if (!other.startsWith(char, length)) break;
    length += char.length;
  }
  return length;
}

function commonEndLength(one: string, other: string): number {
  let length = 0;
  for (const char of Array.from(one).reverse()) {
    if (!other.endsWith(char, other.length - length)) break;
    length += char.length;
  }
  return length;
}

function areTexts(...values: unknown[]): boolean {
  return values.every((value) => typeof value === "string");
}

function place(value: unknown): Place | undefined {
  const { line, character } = fields(value);
  return typeof line === "number" && typeof character === "number" ? { line, character } : undefined;
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}
