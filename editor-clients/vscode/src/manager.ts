// The window's language server: finds it, keeps it running, and shows how it is.
import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { LogLevel, type LogOutputChannel, type TextEditor, workspace } from "vscode";
import type { Server } from "./client";
import { findServer, type ServerCommand, ServerMissingError } from "./discovery";
import { notifyCrash, notifyMissing } from "./notices";
import type { ActivePython } from "./python";
import type { ServerStatus } from "./status";
import type { StatusBar } from "./statusBar";
import { Supervisor, type SupervisorState, waitByClock } from "./supervisor";

/** The first crash may be an accident and mends itself; from the second on the user is told, once. */
const CRASHES_UNTOLD = 1;

export class ServerManager {
  readonly #log: LogOutputChannel;
  readonly #statusBar: StatusBar;
  readonly #python: ActivePython;
  readonly #supervisor: Supervisor;
  #command: ServerCommand | undefined;
  #server: Server | undefined;
  /** What the server said of itself; it may speak before its start is reported. */
  #serverStatus: ServerStatus | undefined;

  constructor(log: LogOutputChannel, statusBar: StatusBar, python: ActivePython) {
    this.#log = log;
    this.#statusBar = statusBar;
    this.#python = python;
    this.#supervisor = new Supervisor({
      launch: (signal) => this.#launch(signal),
      report: (state) => { this.#report(state); },
      now: () => performance.now(),
      wait: waitByClock,
    });
  }

  /** The server that runs; undefined while it starts, or when there is none. */
  get running(): Server | undefined {
    return this.#server;
  }

  restart(): void {
    this.#supervisor.restart();
  }

  stop(): Promise<void> {
    return this.#supervisor.stop();
  }

  /** Has a server that runs compare the index with the files: events may have been lost while nobody looked. */
  reconcileIndex(): void {
    this.#server?.executeCommand("composer.index.reconcile", []).catch((error: unknown) => {
      this.#log.debug(`The index was not compared with the files: ${String(error)}`);
    });
  }

  /** Has a server that runs get ready for a suggestion where the cursor rests. */
  prepare({ document, selection }: TextEditor): void {
    this.#server?.prepare(document, selection.active).catch((error: unknown) => {
      this.#log.debug(`Nothing was prepared at the cursor: ${String(error)}`);
    });
  }

  /** For changes that may lead to another server: a setting, the Python environment, trust in the workspace. */
  async restartIfCommandChanged(): Promise<void> {
    const found = await this.#find().catch((error: unknown) => {
      if (error instanceof ServerMissingError) return undefined;
      throw error;
    });
    if (JSON.stringify(found) !== JSON.stringify(this.#command)) this.restart();
  }

  async #launch(signal: AbortSignal): Promise<Server> {
    this.#command = undefined;
    const command = await this.#find();
    this.#command = command;
    this.#log.info(`Starting ${[command.command, ...command.args].join(" ")}, from ${command.source}.`);
    // Loaded here, so that activation does not wait for the language client's code.
    const { launchServer } = await import("./client");
    this.#server = await launchServer(command, {
      log: this.#log,
      cwd: workspaceFolder(),
      env: { ...process.env, ...logLevelVariable(this.#log.logLevel) },
      signal,
      onStatus: (status) => {
        this.#serverStatus = status;
        this.#statusBar.show(status);
      },
    });
    return this.#server;
  }

  async #find(): Promise<ServerCommand> {
    const { isTrusted } = workspace;
    return findServer({
      configured: workspace.getConfiguration("composer.server").get<string[]>("command", []),
      // An interpreter that lies in the workspace is as much the folder's as its settings are.
      pythonExecutable: isTrusted ? await this.#python.executable() : undefined,
      env: process.env,
      platform: process.platform,
      homeDir: homedir(),
      workspaceFolder: workspaceFolder(),
      isExecutable,
    });
  }

  #report(state: SupervisorState): void {
    switch (state.state) {
      case "starting":
        this.#server = undefined;
        this.#serverStatus = undefined;
        this.#statusBar.show({ state: "starting", message: "Starting the language server" });
        break;
      case "running":
        this.#log.info("The language server answers.");
        this.#statusBar.show(this.#serverStatus ?? { state: "idle", message: "Ready" });
        break;
      case "missing":
        this.#server = undefined;
        this.#log.error(state.reason);
        this.#statusBar.show({ state: "missing", message: state.reason });
        void notifyMissing(state.reason);
        break;
      case "crashed":
        this.#reportCrash(state);
        break;
    }
  }

  #reportCrash({ reason, retryMs, numFailures }: SupervisorState & { state: "crashed" }): void {
    this.#server = undefined;
    const message = `The language server stopped: ${reason}`;
    this.#log.error(`${message}. It is started again in ${retryMs / 1000} s.`);
    this.#statusBar.show({ state: "crashed", message });
    if (numFailures === CRASHES_UNTOLD + 1) void notifyCrash(message);
  }
}

function workspaceFolder(): string | undefined {
  return workspace.workspaceFolders?.find((folder) => folder.uri.scheme === "file")?.uri.fsPath;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The log channel's level ("Developer: Set Log Level…") is the server's, unless the user's environment names one. */
function logLevelVariable(level: LogLevel): Record<string, string> {
  if (process.env.COMPOSER_LOG_LEVEL !== undefined) return {};
  if (level === LogLevel.Trace || level === LogLevel.Debug) return { COMPOSER_LOG_LEVEL: "debug" };
  return level === LogLevel.Info ? { COMPOSER_LOG_LEVEL: "info" } : {};
}
