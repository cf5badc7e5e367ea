// Keeps one language server running: starts it again when it ends, with growing pauses, for as long as the
// window is open.
import { Backoff } from "./backoff";
import { ServerMissingError } from "./discovery";

/** One running server. */
export interface Life {
  /** Resolves when the server is gone, with why. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

export type SupervisorState =
  | { readonly state: "starting" }
  | { readonly state: "running" }
  | { readonly state: "missing"; readonly reason: string }
  | { readonly state: "crashed"; readonly reason: string; readonly retryMs: number; readonly numFailures: number };

export interface SupervisorOptions {
  /** Resolves once the server answers; ends what it started when `signal` aborts before that. */
  launch(signal: AbortSignal): Promise<Life>;
  report(state: SupervisorState): void;
  now(): number;
  /** Resolves after `ms`, or at once when `signal` aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

export class Supervisor {
  readonly #backoff = new Backoff();
  readonly #options: SupervisorOptions;
  #abort = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** Starts the server, after stopping the one that runs; a pause between two attempts ends at once. */
  restart(): void {
    this.#abort.abort();
    const { signal } = (this.#abort = new AbortController());
    this.#running = this.#running.then(() => {
      this.#backoff.reset();
      return this.#run(signal);
    });
  }

  /** Stops the server for good; resolves when it is gone. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { livedMs, error } = await this.#live(signal);
      if (isAborted(signal)) return;
      if (error instanceof ServerMissingError) {
        this.#options.report({ state: "missing", reason: error.message });
        return;
      }
      const retryMs = this.#backoff.next(livedMs);
      this.#options.report({
        state: "crashed",
        reason: error.message,
        retryMs,
        numFailures: this.#backoff.numFailures,
      });
      await this.#options.wait(retryMs, signal);
    }
  }

  async #live(signal: AbortSignal): Promise<{ livedMs: number; error: Error }> {
    this.#options.report({ state: "starting" });
    let startedAt: number | undefined;
    try {
      const life = await this.#options.launch(signal);
      startedAt = this.#options.now();
      if (!signal.aborted) this.#options.report({ state: "running" });
      const reason = await endOrStop(life, signal);
      return { livedMs: this.#options.now() - startedAt, error: new Error(reason) };
    } catch (error) {
      return {
        livedMs: startedAt === undefined ? 0 : this.#options.now() - startedAt,
        error: error instanceof Error ? error : new Error(String(error)),
      };
    }
  }
}

/** As a call, because the compiler takes the property for constant across an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

async function endOrStop(life: Life, signal: AbortSignal): Promise<string> {
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => { resolve(); }, { once: true });
  });
  const reason = await Promise.race([life.ended, aborted]);
  if (reason !== undefined) return reason;
  await life.stop();
  return life.ended;
}

/** `SupervisorOptions.wait` by the clock. */
export function waitByClock(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
