// The active Python environment, by the API of Microsoft's Python extension where that is installed.
import { type Disposable, type Event, EventEmitter, extensions, type LogOutputChannel, type Uri } from "vscode";

/** The part of the extension's API that is used here. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(): { readonly path: string };
    resolveEnvironment(environment: { readonly path: string }): Promise<
      { readonly executable: { readonly uri?: Uri } } | undefined
    >;
    readonly onDidChangeActiveEnvironmentPath: Event<unknown>;
  };
}

/** The Python extension may search the disk while it starts; the server is not kept waiting for longer. */
const ACTIVATION_LIMIT_MS = 10_000;

export class ActivePython implements Disposable {
  readonly #log: LogOutputChannel;
  readonly #changed = new EventEmitter<void>();
  readonly onDidChange = this.#changed.event;
  #subscription: Disposable | undefined;

  constructor(log: LogOutputChannel) {
    this.#log = log;
  }

  /** The interpreter of the active environment; undefined without the Python extension, or when that fails. */
  async executable(): Promise<string | undefined> {
    try {
      return await this.#executable();
    } catch (error) {
      this.#log.warn(`The Python extension does not tell the active environment: ${String(error)}`);
      return undefined;
    }
  }

  dispose(): void {
    this.#subscription?.dispose();
    this.#changed.dispose();
  }

  async #executable(): Promise<string | undefined> {
    const api = await Promise.race([this.#api(), limit(ACTIVATION_LIMIT_MS)]);
    if (api === undefined) return undefined;
    this.#subscription ??= api.environments.onDidChangeActiveEnvironmentPath(() => { this.#changed.fire(); });
    const active = await api.environments.resolveEnvironment(api.environments.getActiveEnvironmentPath());
    return active?.executable.uri?.fsPath;
  }

  async #api(): Promise<PythonApi | undefined> {
    return extensions.getExtension<PythonApi>("ms-python.python")?.activate();
  }
}

function limit(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => { resolve(undefined); }, ms));
}
