// Wires the extension together.
import { type ExtensionContext, window, workspace } from "vscode";
import { registerCommands } from "./commands";
import { SCHEMES } from "./documents";
import { FocusWatch } from "./focus";
import { ServerManager } from "./manager";
import { NextEdits } from "./nextEdits";
import { ActivePython } from "./python";
import { RestWatch } from "./rest";
import { StatusBar } from "./statusBar";

let manager: ServerManager | undefined;

/** Returns at once; the server starts behind it. */
export function activate(context: ExtensionContext): void {
  const log = window.createOutputChannel("Composer", { log: true });
  const statusBar = new StatusBar();
  const python = new ActivePython(log);
  const server = new ServerManager(log, statusBar, python);
  manager = server;
  const focus = new FocusWatch(window.state.focused, () => { server.reconcileIndex(); });
  const rest = new RestWatch(() => {
    const editor = window.activeTextEditor;
    if (editor !== undefined && SCHEMES.includes(editor.document.uri.scheme)) server.prepare(editor);
  });
  context.subscriptions.push(
    log,
    statusBar,
    python,
    new NextEdits(() => server.running, log),
    ...registerCommands({ extensionUri: context.extensionUri, log, server, statusBar }),
    rest,
    window.onDidChangeActiveTextEditor(() => { rest.moved(); }),
    window.onDidChangeTextEditorSelection(({ textEditor }) => {
      if (textEditor === window.activeTextEditor) rest.moved();
    }),
    python.onDidChange(() => server.restartIfCommandChanged()),
    window.onDidChangeWindowState((state) => { focus.update(state.focused); }),
    workspace.onDidGrantWorkspaceTrust(() => server.restartIfCommandChanged()),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("composer.server")) void server.restartIfCommandChanged();
    }),
  );
  server.restart();
}

/** VS Code waits for this, so the server leaves in order. */
export async function deactivate(): Promise<void> {
  await manager?.stop();
}
