import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../src/backoff";
import { ServerMissingError } from "../src/discovery";
import { type Life, Supervisor, type SupervisorState } from "../src/supervisor";

/** A server that lives until the test ends it, or the supervisor stops it. */
class FakeLife implements Life {
  readonly ended: Promise<string>;
  end!: (reason: string) => void;
  stopped = false;

  constructor() {
    this.ended = new Promise((resolve) => { this.end = resolve; });
  }

  stop(): Promise<void> {
    this.stopped = true;
    this.end("stopped");
    return Promise.resolve();
  }
}

class Bench {
  readonly lives: FakeLife[] = [];
  readonly states: SupervisorState[] = [];
  readonly waits: number[] = [];
  nowMs = 0;
  /** What the next launches do instead of starting a server. */
  failures: Error[] = [];
  /** False: waits last until they are aborted. */
  waitsEnd = true;
  readonly supervisor = new Supervisor({
    launch: () => this.#launch(),
    report: (state) => this.states.push(state),
    now: () => this.nowMs,
    wait: (ms, signal) => this.#wait(ms, signal),
  });

  /** Resolves once `ready` holds; everything here happens within a few microtasks. */
  async until(ready: () => boolean): Promise<void> {
    for (let turn = 0; turn < 1000; turn += 1) {
      if (ready()) return;
      await Promise.resolve();
    }
    assert.fail(`never came: ${ready.toString()}; states: ${JSON.stringify(this.states)}`);
  }

  #launch(): Promise<Life> {
    const failure = this.failures.shift();
    if (failure !== undefined) return Promise.reject(failure);
    const life = new FakeLife();
    this.lives.push(life);
    return Promise.resolve(life);
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    this.waits.push(ms);
    if (this.waitsEnd) return Promise.resolve();
    return new Promise((resolve) => { signal.addEventListener("abort", () => { resolve(); }); });
  }
}

test("a server that ends is started again, and its own words are reported", async () => {
  const bench = new Bench();
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 1);
  bench.lives[0]?.end("MemoryError: no room");
  await bench.until(() => bench.states.length === 5);
  assert.deepEqual(
    bench.states.map(({ state }) => state),
    ["starting", "running", "crashed", "starting", "running"],
  );
  assert.deepEqual(bench.states[2], {
    state: "crashed", reason: "MemoryError: no room", retryMs: 500, numFailures: 1,
  });
  await bench.supervisor.stop();
});

test("it never gives up, and waits longer each time up to a minute", async () => {
  const bench = new Bench();
  bench.failures = Array.from({ length: 50 }, () => new Error("broken"));
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 1);
  assert.equal(bench.waits.length, 50);
  assert.deepEqual(bench.waits.slice(0, 4), [500, 1000, 2000, 4000]);
  assert.equal(Math.max(...bench.waits), 60_000);
  await bench.supervisor.stop();
});

test("a server that lived long starts the count anew", () => {
  const backoff = new Backoff();
  assert.deepEqual([backoff.next(0), backoff.next(0), backoff.next(60_000), backoff.next(0)], [500, 1000, 500, 1000]);
});

test("a missing server is told once and not looked for again until asked", async () => {
  const bench = new Bench();
  bench.failures = [new ServerMissingError("nowhere")];
  bench.supervisor.restart();
  await bench.until(() => bench.states.at(-1)?.state === "missing");
  assert.equal(bench.waits.length, 0);
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 1);
  await bench.supervisor.stop();
});

test("a restart stops the server before the next one starts", async () => {
  const bench = new Bench();
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 1);
  bench.supervisor.restart();
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 2 && bench.states.at(-1)?.state === "running");
  const stopped = (): boolean[] => bench.lives.map((life) => life.stopped);
  assert.deepEqual(stopped(), [true, false]);
  await bench.supervisor.stop();
  assert.deepEqual(stopped(), [true, true]);
  assert.ok(!bench.states.some(({ state }) => state === "crashed"));
});

test("a restart ends the pause between two attempts", async () => {
  const bench = new Bench();
  bench.waitsEnd = false;
  bench.failures = [new Error("broken")];
  bench.supervisor.restart();
  await bench.until(() => bench.waits.length === 1);
  bench.supervisor.restart();
  await bench.until(() => bench.lives.length === 1);
  await bench.supervisor.stop();
});

test("after a stop nothing is started", async () => {
  const bench = new Bench();
  bench.waitsEnd = false;
  bench.failures = [new Error("broken")];
  bench.supervisor.restart();
  await bench.until(() => bench.waits.length === 1);
  await bench.supervisor.stop();
  assert.equal(bench.lives.length, 0);
});
