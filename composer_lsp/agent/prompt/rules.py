"""The project's own instructions for agents: AGENTS.md and the files that other tools read.

Those of a nested folder come before those above it, for the files below that folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import Workspace, WorkspaceError

NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", ".cursorrules")
_CURSOR_FOLDER = ".cursor/rules/"
MAX_CHARS = 12_000
"""Of all rules together."""


@dataclass(frozen=True, slots=True)
class RulesFile:
    path: str
    text: str


async def read_rules(workspace: Workspace, focus: str = "") -> Sequence[RulesFile]:
    """The rules that hold for the file `focus`, or for the whole, nearest first."""
    paths = [path for path in await workspace.files() if _is_rules(path) and _holds(path, focus)]
    paths.sort(key=lambda path: (-_folder(path).count("/") - bool(_folder(path)), path))
    found: list[RulesFile] = []
    room = MAX_CHARS
    seen: set[str] = set()
    for path in paths:
        text = await _text(workspace, path)
        # CLAUDE.md is often a copy of AGENTS.md, or a link to it.
        if text and text not in seen and room > 0:
            seen.add(text)
            found.append(RulesFile(path, cut_middle(text, room)))
            room -= len(text)
    return found


def _is_rules(path: str) -> bool:
    is_named = any(path == name or path.endswith(f"/{name}") for name in NAMES)
    return is_named or (_CURSOR_FOLDER in f"/{path}" and path.endswith((".mdc", ".md")))


def _folder(path: str) -> str:
    """The folder that rules hold for."""
    for inner in (_CURSOR_FOLDER, ".github/"):
        if inner in path:
            return path[: path.index(inner)].rstrip("/")
    folder = PurePosixPath(path).parent.as_posix()
    return "" if folder == "." else folder


def _holds(path: str, focus: str) -> bool:
    folder = _folder(path)
    return not folder or focus.startswith(f"{folder}/")


async def _text(workspace: Workspace, path: str) -> str:
    try:
        snapshot = await workspace.read(workspace.paths.locate(path))
    except (PathError, WorkspaceError):
        return ""
    return snapshot.file.shown.strip() if snapshot.file else ""
