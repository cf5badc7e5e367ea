// One life of the language server: its process and the LSP connection to it.
import { type LogOutputChannel, type Position, type TextDocument, workspace } from "vscode";
import {
  type ClientCapabilities,
  CloseAction,
  ErrorAction,
  ExecuteCommandRequest,
  type FeatureState,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  type StaticFeature,
} from "vscode-languageclient/node";
import type { ServerCommand } from "./discovery";
import { SCHEMES } from "./documents";
import { type ServerProcess, startProcess } from "./process";
import { parseServerStatus, type ServerStatus } from "./status";
import type { Life } from "./supervisor";

const STOP_MS = 2000;
/** A connection that breaks is the first sign of a server that crashes; its own words come with its exit. */
const EXIT_AFTER_BREAK_MS = 1000;

export interface Server extends Life {
  executeCommand(command: string, args: (string | number)[]): Promise<unknown>;
  /** Tells that the cursor rests there; ends when the next suggestion there is prepared. */
  prepare(document: TextDocument, cursor: Position): Promise<unknown>;
  request(method: string, params: object): Promise<unknown>;
  notify(method: string, params: object): Promise<void>;
  /** As the server knows the document. */
  uriOf(document: TextDocument): string;
}

export interface LaunchOptions {
  readonly log: LogOutputChannel;
  readonly cwd: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly onStatus: (status: ServerStatus) => void;
}

/** Starts the server and waits until it has answered `initialize`. */
export async function launchServer(command: ServerCommand, options: LaunchOptions): Promise<Server> {
  const process = await startProcess(command, {
    cwd: options.cwd,
    env: options.env,
    onStderrLine: (line) => { options.log.info(line); },
  });
  const client = createClient(process, options);
  const endOnAbort = (): void => void process.end();
  options.signal.addEventListener("abort", endOnAbort, { once: true });
  if (options.signal.aborted) endOnAbort();
  try {
    await startUnlessEnded(client, process);
  } finally {
    options.signal.removeEventListener("abort", endOnAbort);
  }
  return {
    ended: process.ended,
    stop: () => stop(client, process, options.log),
    executeCommand: (name, args) =>
      client.sendRequest(ExecuteCommandRequest.type, { command: name, arguments: args }),
    prepare: (document, cursor) => {
      const { code2ProtocolConverter: convert } = client;
      const position = convert.asPosition(cursor);
      const place = { uri: convert.asUri(document.uri), range: { start: position, end: position } };
      return client.sendRequest(ExecuteCommandRequest.type, { command: "composer.prepare", arguments: [place] });
    },
    request: (method, params) => client.sendRequest<unknown>(method, params),
    notify: (method, params) => client.sendNotification(method, params),
    uriOf: (document) => client.code2ProtocolConverter.asUri(document.uri),
  };
}

async function startUnlessEnded(client: LanguageClient, process: ServerProcess): Promise<void> {
  try {
    await client.start();
  } catch (error) {
    const reason = await Promise.race([
      process.ended,
      new Promise<undefined>((resolve) => setTimeout(() => { resolve(undefined); }, EXIT_AFTER_BREAK_MS)),
    ]);
    await process.end();
    throw reason === undefined ? error : new Error(reason);
  }
}

async function stop(client: LanguageClient, process: ServerProcess, log: LogOutputChannel): Promise<void> {
  try {
    await client.stop(STOP_MS);
  } catch (error) {
    log.debug(`The server did not shut down by itself: ${String(error)}`);
  }
  await process.end();
}

function createClient(process: ServerProcess, { log, onStatus }: LaunchOptions): LanguageClient {
  const client = new QuietClient(
    "composer",
    "Composer",
    () => Promise.resolve({ reader: process.child.stdout, writer: process.child.stdin, detached: true }),
    clientOptions(process, log),
  );
  client.registerFeature(new StatusFeature());
  client.onNotification("composer/status", (params: unknown) => {
    const status = parseServerStatus(params);
    if (status === undefined) log.warn(`The server sent a status of an unknown form: ${JSON.stringify(params)}`);
    else onStatus(status);
  });
  return client;
}

function clientOptions(process: ServerProcess, log: LogOutputChannel): LanguageClientOptions {
  return {
    documentSelector: SCHEMES.map((scheme) => ({ scheme })),
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    // Later changes reach the server by its own `workspace/configuration` requests.
    initializationOptions: () => workspace.getConfiguration().get("composer"),
    // The supervisor starts the next server; this connection only has to end.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        void process.end();
        return { action: CloseAction.DoNotRestart, handled: true, message: "The connection to the server is closed." };
      },
    },
    initializationFailedHandler: () => false,
  };
}

/** Errors go to the log and, where the user has to act, into the status bar; none opens a box by itself. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Tells the server that this client understands `composer/status`. */
class StatusFeature implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    capabilities.experimental = { composer: { status: true } };
  }

  initialize(): void {
    // Nothing depends on what the server can do.
  }

  getState(): FeatureState {
    return { kind: "static" };
  }

  clear(): void {
    // Nothing is registered.
  }
}
