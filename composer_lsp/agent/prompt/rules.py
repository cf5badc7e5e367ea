"""The project's own instructions for agents: AGENTS.md and the files that other tools read.

Those of a nested folder come before those above it, for the files below that folder.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.workspace.paths import PathError, Paths
from composer_lsp.agent.workspace.workspace import Workspace, WorkspaceError

NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", ".cursorrules")
_CURSOR_FOLDER = ".cursor/rules/"
MAX_CHARS = 12_000
"""Of all rules together."""
_PATH = re.compile(r"[\w.+@-]+(?:[/\\][\w.+@-]+)*[/\\]?")
_MAX_NAMED = 100
"""So many words of a request are looked at that could be paths."""


@dataclass(frozen=True, slots=True)
class RulesFile:
    path: str
    text: str


async def read_rules(
    workspace: Workspace, focus: str = "", request: str = ""
) -> Sequence[RulesFile]:
    """Of each root, and of the folders in which the file `focus` lies and those that the request names;
    the nearest first."""
    files = await workspace.files()
    tops = _tops(workspace.paths)
    paths = [path for path in files if _is_rules(path)]
    places = [focus] if focus else []
    if nested := {_folder(path) for path in paths} - set(tops):
        named = _named(request, files, tops)
        places += [each for each in named if any(_is_in(each, folder) for folder in nested)]
    paths = [path for path in paths if _folder(path) in tops or _holder(path, places) is not None]
    paths.sort(key=lambda path: _distance(path, places, tops))
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


def _tops(paths: Paths) -> Sequence[str]:
    """The roots' folders, as paths name them."""
    roots = paths.roots
    return [paths.at(root, "").path for root in roots] if len(roots) > 1 else [""]


def _named(request: str, files: Sequence[str], tops: Sequence[str]) -> Sequence[str]:
    """Files and folders that it names, also new ones, and by the end of a path that only one has."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in files:
        by_name[path.rpartition("/")[2]].append(path)
    found: list[str] = []
    for path in _paths_in(request):
        ends = [
            each for each in by_name[path.rpartition("/")[2]] if f"/{each}".endswith(f"/{path}")
        ]
        found += [path, *(f"{top}/{path}" for top in tops if top)]
        found += ends if len(ends) == 1 else []
    return found


def _paths_in(text: str) -> Sequence[str]:
    """What could be one, in order."""
    words = (match[0].replace("\\", "/").rstrip(".") for match in _PATH.finditer(text))
    paths = (word.removeprefix("./").rstrip("/") for word in words if "/" in word or "." in word)
    return list(islice(dict.fromkeys(filter(None, paths)), _MAX_NAMED))


def _holder(path: str, places: Sequence[str]) -> int | None:
    """The first of the places that the rules hold for."""
    folder = _folder(path)
    return next((at for at, each in enumerate(places) if _is_in(each, folder)), None)


def _is_in(place: str, folder: str) -> bool:
    return f"{place}/".startswith(f"{folder}/") or not folder


def _distance(path: str, places: Sequence[str], tops: Sequence[str]) -> tuple[bool, int, int, str]:
    folder, holder = _folder(path), _holder(path, places)
    return folder in tops, len(places) if holder is None else holder, -folder.count("/"), path


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


async def _text(workspace: Workspace, path: str) -> str:
    try:
        snapshot = await workspace.read(workspace.paths.locate(path))
    except (PathError, WorkspaceError):
        return ""
    return snapshot.file.shown.strip() if snapshot.file else ""
