import assert from "node:assert/strict";
import { test } from "node:test";
import { startProcess } from "../src/process";

function run(script: string, lines: string[] = []) {
  return startProcess(
    { command: process.execPath, args: ["-e", script], source: "the test" },
    { cwd: undefined, env: process.env, onStderrLine: (line) => lines.push(line) },
  );
}

test("the end is told in the last words on standard error", async () => {
  const lines: string[] = [];
  const server = await run("console.error('Traceback'); console.error('ValueError: bad port\\n'); process.exit(1)", lines);
  assert.equal(await server.ended, "ValueError: bad port");
  assert.deepEqual(lines, ["Traceback", "ValueError: bad port", ""]);
});

test("a silent end is told by its exit code", async () => {
  assert.equal(await (await run("process.exit(3)")).ended, "it exited with code 3");
});

test("a killed server is told by the signal", async () => {
  const server = await run("process.stdin.resume()");
  server.child.kill("SIGKILL");
  assert.equal(await server.ended, "it was ended by SIGKILL");
});

test("a command that cannot be run is an error that names it", async () => {
  await assert.rejects(
    startProcess({ command: "/nonexistent/server", args: [], source: "the test" }, {
      cwd: undefined, env: {}, onStderrLine: () => undefined,
    }),
    /\/nonexistent\/server cannot be run/,
  );
});

test("a server that reads its input leaves by itself when asked to end", async () => {
  const server = await run("process.stdin.resume(); process.stdin.on('end', () => process.exit(7))");
  await server.end();
  assert.equal(await server.ended, "it exited with code 7");
});

test("a server that ignores everything is killed", async () => {
  const server = await run("process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.error('up')");
  await server.end();
  assert.equal(server.child.signalCode, "SIGKILL");
});
