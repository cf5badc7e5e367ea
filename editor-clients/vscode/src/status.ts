// What the status bar shows: the server's own status, or why there is no server.

const SERVER_STATES = [
  "idle",
  "starting",
  "downloading",
  "loading",
  "thinking",
  "snoozed",
  "disabled",
  "offline",
  "error",
] as const;

/** The `composer/status` notification. */
export interface ServerStatus {
  readonly state: (typeof SERVER_STATES)[number];
  readonly message: string;
  readonly percent?: number;
  readonly model?: string;
}

/** The server's status while it runs, and this client's word on it when it does not. */
export type Status =
  | ServerStatus
  | { readonly state: "missing"; readonly message: string }
  | { readonly state: "crashed"; readonly message: string };

export interface StatusView {
  readonly text: string;
  readonly tooltip: string;
  /** A background that stands out; the icon and the words say the same. */
  readonly severity: "none" | "warning" | "error";
}

const ICONS: Readonly<Record<Status["state"], string>> = {
  idle: "sparkle",
  starting: "loading~spin",
  downloading: "cloud-download",
  loading: "loading~spin",
  thinking: "loading~spin",
  snoozed: "bell-slash",
  disabled: "circle-slash",
  offline: "debug-disconnect",
  error: "error",
  missing: "warning",
  crashed: "error",
};

/** States whose icon alone would not say enough. */
const WORDS: Partial<Readonly<Record<Status["state"], string>>> = {
  downloading: "downloading",
  loading: "loading",
  snoozed: "snoozed",
  disabled: "off",
  offline: "offline",
  error: "error",
  missing: "not installed",
  crashed: "stopped",
};

/** The status that the server sent; undefined for anything else. */
export function parseServerStatus(value: unknown): ServerStatus | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { state, message, percent, model } = value as Record<string, unknown>;
  const known = SERVER_STATES.find((each) => each === state);
  if (known === undefined) return undefined;
  return {
    state: known,
    message: typeof message === "string" ? message : "",
    ...(typeof percent === "number" && { percent }),
    ...(typeof model === "string" && { model }),
  };
}

export function statusView(status: Status): StatusView {
  const percent = "percent" in status ? ` ${Math.floor(status.percent)}%` : "";
  const word = WORDS[status.state];
  return {
    text: `$(${ICONS[status.state]}) Composer${word === undefined ? "" : `: ${word}`}${percent}`,
    tooltip: statusLine(status),
    severity: severity(status.state),
  };
}

/** The status in one line of words, for the tooltip, the menu's title and screen readers. */
export function statusLine(status: Status): string {
  const model = "model" in status ? ` (${status.model})` : "";
  const detail = status.message === "" ? (WORDS[status.state] ?? status.state) : status.message;
  return `Composer: ${detail}${model}`;
}

function severity(state: Status["state"]): StatusView["severity"] {
  if (state === "error" || state === "crashed") return "error";
  return state === "missing" || state === "offline" ? "warning" : "none";
}
