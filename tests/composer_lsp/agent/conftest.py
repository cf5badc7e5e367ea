import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import Tool
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths

Call = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with some files in it, one of each kind that may not be read."""
    folder = tmp_path / "project"
    for path, text in {
        "src/app.py": "import os\n\n\ndef main():\n    return os.getcwd()\n",
        "src/util.py": "def helper():\n    return 'needle'\n",
        "README.md": "# Project\n",
        ".env": "TOKEN=needle\n",
        ".gitignore": "build/\n",
        "build/out.py": "needle = 1\n",
        ".composerignore": "private/\n",
        "private/notes.md": "needle\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def context(root: Path) -> ToolContext:
    return ToolContext(workspace=DirectoryWorkspace(Paths([root])))


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Run a tool with arguments as a model gives them."""

    def run(tool: Tool, **arguments: Any) -> str:
        return asyncio.run(tool.call(context, arguments))

    return run
