// Which command starts the language server: the setting, else the active Python environment,
// else the virtual environment that VS Code was started in, else the PATH.
import * as path from "node:path";

export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** Where the command comes from, for the log. */
  readonly source: string;
}

/** What the search depends on; no field is read from elsewhere. */
export interface Surroundings {
  /** The setting `composer.server.command`: a program and its arguments, or nothing. */
  readonly configured: readonly string[];
  /** Interpreter of the active Python environment, where there is one that may be used. */
  readonly pythonExecutable: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly homeDir: string;
  /** First folder of the workspace. */
  readonly workspaceFolder: string | undefined;
  isExecutable(file: string): boolean;
}

/** No language server was found; the message says where it was looked for. */
export class ServerMissingError extends Error {
  override readonly name = "ServerMissingError";
}

export function findServer(around: Surroundings): ServerCommand {
  const [program, ...args] = around.configured;
  if (program !== undefined) return configuredServer(program, args, around);
  const { places, found } = search(around);
  if (found === undefined) {
    throw new ServerMissingError(`composer-lsp was not found in ${places.join(", nor in ")}.`);
  }
  return found;
}

function configuredServer(program: string, args: readonly string[], around: Surroundings): ServerCommand {
  const expand = (word: string): string => expandVariables(word, around);
  const name = expand(program);
  const command = isBareName(name, around) ? onPath(name, around) : name;
  if (command === undefined || !around.isExecutable(command)) {
    throw new ServerMissingError(
      `The setting composer.server.command names ${name}, which is not a program on this machine.`,
    );
  }
  return { command, args: args.map(expand), source: "the setting composer.server.command" };
}

function search(around: Surroundings): { places: string[]; found?: ServerCommand } {
  const { pythonExecutable, env } = around;
  const paths = pathModule(around);
  const bin = around.platform === "win32" ? "Scripts" : "bin";
  const folders: [source: string, folder: string][] = [];
  if (pythonExecutable !== undefined) {
    folders.push(["the active Python environment", paths.dirname(pythonExecutable)]);
  }
  if (env.VIRTUAL_ENV) folders.push(["VIRTUAL_ENV", paths.join(env.VIRTUAL_ENV, bin)]);

  const name = executableName(around);
  for (const [source, folder] of folders) {
    const command = paths.join(folder, name);
    if (around.isExecutable(command)) return { places: [], found: { command, args: ["serve"], source } };
  }
  const command = onPath(name, around);
  if (command !== undefined) return { places: [], found: { command, args: ["serve"], source: "the PATH" } };
  return { places: [...folders.map(([source, folder]) => `${source} (${folder})`), "the folders of the PATH"] };
}

/** Relative entries of the PATH are left out: they would run a program of whichever folder is open. */
function onPath(name: string, around: Surroundings): string | undefined {
  const paths = pathModule(around);
  const folders = (around.env.PATH ?? around.env.Path ?? "").split(paths.delimiter);
  const names = around.platform === "win32" && !/\.exe$/i.test(name) ? [`${name}.exe`] : [name];
  return folders
    .filter((folder) => paths.isAbsolute(folder))
    .flatMap((folder) => names.map((each) => paths.join(folder, each)))
    .find((file) => around.isExecutable(file));
}

function expandVariables(word: string, around: Surroundings): string {
  return word
    .replace(/^~(?=[/\\]|$)/, () => around.homeDir)
    .replaceAll("${userHome}", () => around.homeDir)
    .replaceAll("${workspaceFolder}", () => around.workspaceFolder ?? "${workspaceFolder}");
}

function isBareName(name: string, around: Surroundings): boolean {
  return pathModule(around).basename(name) === name;
}

function executableName(around: Surroundings): string {
  return around.platform === "win32" ? "composer-lsp.exe" : "composer-lsp";
}

function pathModule(around: Surroundings): path.PlatformPath {
  return around.platform === "win32" ? path.win32 : path.posix;
}
