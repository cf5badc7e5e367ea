import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { findServer, ServerMissingError, type Surroundings } from "../src/discovery";

function around(programs: string[], changes: Partial<Surroundings> = {}): Surroundings {
  return {
    configured: [],
    pythonExecutable: undefined,
    env: { PATH: "/usr/local/bin:/usr/bin" },
    platform: "linux",
    homeDir: "/home/ada",
    workspaceFolder: "/src/engine",
    isExecutable: (file) => programs.includes(file),
    ...changes,
  };
}

const EVERYWHERE = ["/env/bin/composer-lsp", "/venv/bin/composer-lsp", "/usr/bin/composer-lsp"];

describe("findServer", () => {
  test("takes the active Python environment before VIRTUAL_ENV and the PATH", () => {
    const env = { PATH: "/usr/bin", VIRTUAL_ENV: "/venv" };
    const server = findServer(around(EVERYWHERE, { env, pythonExecutable: "/env/bin/python" }));
    assert.equal(server.command, "/env/bin/composer-lsp");
    assert.deepEqual(server.args, ["serve"]);
  });

  test("takes VIRTUAL_ENV before the PATH", () => {
    const server = findServer(around(EVERYWHERE, { env: { PATH: "/usr/bin", VIRTUAL_ENV: "/venv" } }));
    assert.equal(server.command, "/venv/bin/composer-lsp");
  });

  test("goes on to the PATH when the Python environment has no server", () => {
    const server = findServer(around(["/usr/bin/composer-lsp"], { pythonExecutable: "/env/bin/python" }));
    assert.equal(server.command, "/usr/bin/composer-lsp");
  });

  test("leaves out relative entries of the PATH", () => {
    const programs = ["composer-lsp", "./composer-lsp", "bin/composer-lsp"];
    const env = { PATH: ":.:bin" };
    assert.throws(() => findServer(around(programs, { env })), ServerMissingError);
  });

  test("names every place that was searched when there is no server", () => {
    const env = { PATH: "/usr/bin", VIRTUAL_ENV: "/venv" };
    assert.throws(
      () => findServer(around([], { env, pythonExecutable: "/env/bin/python" })),
      (error: unknown) =>
        error instanceof ServerMissingError &&
        ["/env/bin", "/venv/bin", "the PATH"].every((place) => error.message.includes(place)),
    );
  });

  const configurations: [configured: string[], command: string, args: string[]][] = [
    [["/opt/composer-lsp"], "/opt/composer-lsp", []],
    [["~/bin/composer-lsp", "serve"], "/home/ada/bin/composer-lsp", ["serve"]],
    [["${workspaceFolder}/.venv/bin/composer-lsp"], "/src/engine/.venv/bin/composer-lsp", []],
    [["uvx", "composer-lsp", "${userHome}"], "/usr/bin/uvx", ["composer-lsp", "/home/ada"]],
  ];
  for (const [configured, command, args] of configurations) {
    test(`runs what is configured as it stands: ${configured.join(" ")}`, () => {
      const server = findServer(around([...EVERYWHERE, command], { configured }));
      assert.equal(server.command, command);
      assert.deepEqual(server.args, args);
    });
  }

  test("does not fall back when the configured command is missing", () => {
    assert.throws(() => findServer(around(EVERYWHERE, { configured: ["/opt/none"] })), {
      name: "ServerMissingError",
      message: /composer\.server\.command names \/opt\/none/,
    });
  });

  test("looks for the executable of a Windows environment", () => {
    const programs = ["C:\\env\\Scripts\\composer-lsp.exe", "D:\\tools\\uvx.exe"];
    const windows: Partial<Surroundings> = { platform: "win32", env: { Path: "D:\\tools" } };
    const pythonExecutable = "C:\\env\\Scripts\\python.exe";
    assert.equal(findServer(around(programs, { ...windows, pythonExecutable })).command, programs[0]);
    assert.equal(findServer(around(programs, { ...windows, configured: ["uvx"] })).command, programs[1]);
  });
});
