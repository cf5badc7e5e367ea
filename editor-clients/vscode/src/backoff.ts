// How long to wait before the server is started again.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 60_000;
/** A server that lived this long was well: the next failure starts a new count. */
const HEALTHY_AFTER_MS = 60_000;

export class Backoff {
  /** Failures since the server was last well. */
  numFailures = 0;

  /** Milliseconds to wait after a server that lived for `livedMs`: doubles with every failure in a row. */
  next(livedMs: number): number {
    if (livedMs >= HEALTHY_AFTER_MS) this.numFailures = 0;
    this.numFailures += 1;
    return Math.min(FIRST_WAIT_MS * 2 ** (this.numFailures - 1), LONGEST_WAIT_MS);
  }

  reset(): void {
    this.numFailures = 0;
  }
}
