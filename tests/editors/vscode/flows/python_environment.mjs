// The server of the Python environment that becomes active takes over.
import { access } from "node:fs/promises";

export default async function pythonEnvironment(editor, { ranInEnvironment, file, typed, expected }) {
  await editor.waitForStatus(/Ready/);
  const ranBefore = await exists(ranInEnvironment);
  await editor.run("Python: Use the Environment");
  await editor.waitFor("the environment's server", () => exists(ranInEnvironment));
  await editor.waitForStatus(/Ready/);
  await editor.openFile(file);
  await editor.type(typed);
  await editor.waitForGhostText(expected);
  return { ranBefore };
}

function exists(file) {
  return access(file).then(() => true, () => false);
}
