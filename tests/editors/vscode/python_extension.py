"""A stand-in for Microsoft's Python extension: the part of its API that ours uses."""

import json
import zipfile
from pathlib import Path

_MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="python" Version="0.0.1" Publisher="ms-python" />
    <DisplayName>Python</DisplayName>
    <Description>Stand-in</Description>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code" /></Installation>
  <Dependencies />
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" />
  </Assets>
</PackageManifest>
"""

_TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension=".json" ContentType="application/json" />
  <Default Extension=".js" ContentType="application/javascript" />
  <Default Extension=".vsixmanifest" ContentType="text/xml" />
</Types>
"""

_MAIN = """
const { commands, EventEmitter, Uri } = require("vscode");

exports.activate = (context) => {
  const changed = new EventEmitter();
  let active;
  context.subscriptions.push(changed, commands.registerCommand("python.useEnvironment", () => {
    active = %s;
    changed.fire({ path: active });
  }));
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ path: active ?? "python" }),
      resolveEnvironment: async ({ path }) =>
        path === active ? { executable: { uri: Uri.file(path) } } : undefined,
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
"""


def write_python_extension(package: Path, interpreter: Path) -> None:
    """Packages an extension whose command "Python: Use the Environment" makes the environment of
    `interpreter` the active one; before that there is none."""
    command = {"command": "python.useEnvironment", "title": "Python: Use the Environment"}
    description = {
        "name": "python",
        "publisher": "ms-python",
        "version": "0.0.1",
        "engines": {"vscode": "^1.91.0"},
        "main": "./main.js",
        "activationEvents": [],
        "contributes": {"commands": [command]},
    }
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("extension.vsixmanifest", _MANIFEST)
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("extension/package.json", json.dumps(description))
        archive.writestr("extension/main.js", _MAIN % json.dumps(str(interpreter)))
