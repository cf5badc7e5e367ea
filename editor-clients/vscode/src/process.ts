// The server's process: its standard error goes to the log, and its end tells why in the server's own words.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { ServerCommand } from "./discovery";

/** Standard error may be held open by a process that the server started; its last lines are waited for this long. */
const LAST_WORDS_MS = 500;
const TERM_AFTER_MS = 1000;
const KILL_AFTER_MS = 2000;

export interface ProcessOptions {
  readonly cwd: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  onStderrLine(line: string): void;
}

export interface ServerProcess {
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves when the process is gone, with the last line it wrote to standard error, or its exit code. */
  readonly ended: Promise<string>;
  /** Waits for the process to leave by itself for a second, then ends it. */
  end(): Promise<void>;
}

/** Starts the server; rejects when the system cannot run the command. */
export async function startProcess(server: ServerCommand, options: ProcessOptions): Promise<ServerProcess> {
  const child = spawn(server.command, server.args, { cwd: options.cwd, env: options.env });
  let lastLine = "";
  createInterface({ input: child.stderr, crlfDelay: Infinity }).on("line", (line) => {
    if (line.trim() !== "") lastLine = line.trim();
    options.onStderrLine(line);
  });
  const exited = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(signal === null ? `it exited with code ${String(code)}` : `it was ended by ${signal}`);
    });
  });
  const drained = new Promise<void>((resolve) => child.once("close", resolve));
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => {
      reject(new Error(`${server.command} cannot be run: ${error.message}`));
    });
  });
  // A server that is gone is told by its exit; a failed write to it says nothing more.
  child.stdin.on("error", () => undefined);

  const ended = exited.then(async (reason) => {
    await Promise.race([drained, delay(LAST_WORDS_MS)]);
    return lastLine === "" ? reason : lastLine;
  });
  return { child, ended, end: () => endProcess(child, exited) };
}

async function endProcess(child: ChildProcessWithoutNullStreams, exited: Promise<unknown>): Promise<void> {
  const timers = [
    setTimeout(() => child.kill("SIGTERM"), TERM_AFTER_MS),
    setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS),
  ];
  child.stdin.end();
  await exited;
  timers.forEach(clearTimeout);
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
