"""`composer-lsp try`: the real language server, driven as an editor would, in the terminal.

It opens the file in the server (never writing it), types some characters before the cursor, and
shows the ghost text that comes with the milliseconds of each stage; then it types the first
characters of the suggestion to show that the rest is served from memory.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from composer_inference.hardware import read_hardware
from composer_inference.models.choose import choose_model
from composer_inference.models.download import pull_model
from composer_inference.models.errors import ModelError
from composer_inference.models.store import ModelStore
from composer_lsp.cli.model import progress
from composer_lsp.cli.place import PlaceError, offset_of, parse_place, read_document
from composer_lsp.completion.languages import language_of

SAMPLE = Path(__file__).parent / "sample" / "inventory.py"
SAMPLE_LINE, SAMPLE_TYPED = 29, "        return sum("
NUM_TYPED = 6
"""Characters before the cursor of the user's own file that are typed anew."""
NUM_TYPED_THROUGH = 4
ANSWER_LIMIT_S = 300.0
_CONTEXT_LINES = 8
_LINE_ENDS = frozenset({"\n", "\r", "\r\n"})
_KEY = re.compile(r"\r\n|.", re.DOTALL)
_GRACE_S = 5.0
"""How long the server may take to leave before it is ended."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        nargs="?",
        metavar="FILE:LINE[:COL]",
        help="a place in a file of yours, which is not changed (default: a bundled sample)",
    )
    parser.add_argument("--yes", action="store_true", help="fetch the model without asking")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Script:
    """What is typed where: `before` stands already, `typed` comes key by key, `after` follows."""

    path: Path
    before: str
    typed: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    text: str
    wall_ms: float
    stages: dict[str, float]

    @property
    def is_from_memory(self) -> bool:
        return bool(self.stages) and not {"prefill", "first_token"} & self.stages.keys()


class TryError(Exception):
    """The demonstration cannot go on; the message says why and what to do."""


def run(args: argparse.Namespace) -> int:
    console = Console(highlight=False)
    try:
        script = _read_script(args.place)
        _ensure_model(console, yes=args.yes)
        asyncio.run(_try(console, script))
    except (PlaceError, ModelError, TryError) as error:
        print(f"composer-lsp try: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _read_script(place_text: str | None) -> _Script:
    if place_text is None:
        text = SAMPLE.read_text()
        place = parse_place(f"{SAMPLE}:{SAMPLE_LINE}")
        cursor = offset_of(text, place)
        before, typed = text[:cursor], SAMPLE_TYPED
    else:
        place = parse_place(place_text)
        text = read_document(place.path).text
        cursor = offset_of(text, place)
        line_start = max(text.rfind("\n", 0, cursor), text.rfind("\r", 0, cursor)) + 1
        typed = text[line_start:cursor].lstrip()[-NUM_TYPED:]
        before = text[: cursor - len(typed)]
    return _Script(path=place.path.absolute(), before=before, typed=typed, after=text[cursor:])


def _ensure_model(console: Console, *, yes: bool) -> None:
    store = ModelStore()
    installed = [model.name for model in store.installed() if model.problem is None]
    choice = choose_model(read_hardware(), installed)
    if choice.name in installed:
        return
    spec = next(spec for spec in store.catalog if spec.name == choice.name)
    size = f"{spec.size_bytes / 1e6:,.0f} MB"
    if not yes:
        if not sys.stdin.isatty():
            raise TryError(
                f"the model {choice.name} ({size}) is not here; fetch it: "
                f"composer-lsp model pull {choice.name}, or add --yes"
            )
        if console.input(f"Fetch {choice.name}, {size}? [y/N] ").strip().lower() != "y":
            raise TryError("nothing was fetched")
    with progress(f"Fetching {choice.name}") as report:
        pull_model(store, choice.name, report.on_bytes, report.on_notice)


async def _try(console: Console, script: _Script) -> None:
    started = time.perf_counter()
    async with _language_server() as client:
        await client.open(script)
        ready_ms = 1000 * (time.perf_counter() - started)
        console.print("Loading the model; the first prompt is computed whole…", style="dim")
        cold = await client.type("")
        answers = [await client.type(key) for key in script.typed] or [cold]
        warm = answers[-1]
        _show(console, script, len(script.typed), warm.text)
        _show_stages(console, ready_ms, cold, warm)
        if not warm.text:
            console.print("No suggestion here: an empty one is a good answer too.")
            return
        keys = _KEY.findall(warm.text)[:NUM_TYPED_THROUGH]
        rest = [await client.type(key) for key in keys][-1]
        console.print(_typed_through("".join(keys), warm, rest))


def _typed_through(typed: str, shown: _Answer, rest: _Answer) -> str:
    """What came after the first characters of a suggestion were typed."""
    start = f"Typing {typed!r} of it: "
    expected = shown.text[len(typed) :]
    if not expected:
        start = f"Typing {typed!r}, all of it: "
    if expected and rest.text == expected and rest.is_from_memory:
        return f"{start}the rest came from memory in {rest.wall_ms:.0f} ms, without the model."
    if not rest.text:
        return f"{start}a new one was asked for, and there is none after {rest.wall_ms:.0f} ms."
    return f"{start}a new suggestion came in {rest.wall_ms:.0f} ms."


class _Editor:
    """One document in the server, typed into at the cursor."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._version = 1
        self._uri = ""
        self._line = self._column = 0

    async def open(self, script: _Script) -> None:
        from lsprotocol import types

        self._uri = script.path.as_uri()
        lines = script.before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._line, self._column = len(lines) - 1, len(lines[-1])
        initialize = self._client.initialize_async(
            types.InitializeParams(
                process_id=None,
                root_uri=script.path.parent.as_uri(),
                capabilities=types.ClientCapabilities(
                    general=types.GeneralClientCapabilities(
                        position_encodings=[types.PositionEncodingKind.Utf32]
                    ),
                    text_document=types.TextDocumentClientCapabilities(
                        inline_completion=types.InlineCompletionClientCapabilities()
                    ),
                ),
                initialization_options={"modelDownload": "never"},
            )
        )
        await _answer(initialize)
        self._client.initialized(types.InitializedParams())
        self._client.text_document_did_open(
            types.DidOpenTextDocumentParams(
                types.TextDocumentItem(
                    self._uri,
                    language_of(script.path),
                    self._version,
                    script.before + script.after,
                )
            )
        )

    async def type(self, key: str) -> _Answer:
        """Insert a character ("" for none) and ask for the suggestion, as an editor does."""
        from lsprotocol import types

        at = types.Position(self._line, self._column)
        if key:
            self._version += 1
            self._client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(self._version, self._uri),
                    [types.TextDocumentContentChangePartial(types.Range(at, at), key)],
                )
            )
            if key in _LINE_ENDS:
                self._line, self._column = self._line + 1, 0
            else:
                self._column += 1
        started = time.perf_counter()
        kind = types.InlineCompletionTriggerKind.Automatic
        request = self._client.text_document_inline_completion_async(
            types.InlineCompletionParams(
                types.InlineCompletionContext(kind),
                types.TextDocumentIdentifier(self._uri),
                types.Position(self._line, self._column),
            )
        )
        result = await _answer(request)
        wall_ms = 1000 * (time.perf_counter() - started)
        command = types.ExecuteCommandParams("composer.status")
        status = await _answer(self._client.workspace_execute_command_async(command))
        if status["state"] in {"error", "offline"}:
            raise TryError(status["message"])
        items: list[Any] = list(result.items) if result is not None else []
        text = str(items[0].insert_text) if items else ""
        stages: dict[str, float] = status["lastCompletion"] if items else {}
        return _Answer(text=text, wall_ms=wall_ms, stages=stages)


async def _answer(request: Coroutine[Any, Any, Any]) -> Any:
    """Raises: TryError."""
    from pygls.exceptions import JsonRpcException

    # Ctrl-C leaves the task as it is: pygls chokes on the answer to a request that was cancelled.
    task = asyncio.ensure_future(request)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.wait({task}, timeout=ANSWER_LIMIT_S)
    if not task.done():
        raise TryError("the server gave no answer; see: composer-lsp doctor")
    try:
        return task.result()
    except JsonRpcException as error:
        raise TryError(f"the server refused: {error.message}") from error


@asynccontextmanager
async def _language_server() -> AsyncGenerator[_Editor]:
    from lsprotocol import types
    from pygls.lsp.client import BaseLanguageClient  # pyright: ignore[reportPrivateImportUsage]

    from composer_lsp import __version__

    client: Any = BaseLanguageClient("composer-lsp try", __version__)

    def ignore(_: object) -> None:
        """The server's messages are shown by its state."""

    for method in (types.WINDOW_SHOW_MESSAGE, types.WINDOW_LOG_MESSAGE):
        client.feature(method)(ignore)
    try:
        # In a session of its own: Ctrl-C in the terminal is for us, who then ask it to leave.
        command = (sys.executable, "-m", "composer_lsp", "serve")
        await client.start_io(*command, start_new_session=True)
        yield _Editor(client)
    except RuntimeError as error:  # pygls's, for a server that has ended.
        raise TryError(f"{error}; see: composer-lsp doctor") from error
    finally:
        await _end_server(client)


async def _end_server(client: Any) -> None:
    """Ask the server to leave, and end it if it does not."""
    server: asyncio.subprocess.Process | None = client._server
    if server is None:
        return
    try:
        async with asyncio.timeout(_GRACE_S):
            if not client.stopped:
                await client.shutdown_async(None)
                client.exit(None)
            await server.wait()
    except (TimeoutError, RuntimeError):  # it does not answer, or has ended meanwhile
        pass
    finally:
        if server.returncode is None:
            server.kill()
        await client.stop()


def _show(console: Console, script: _Script, num_typed: int, ghost: str) -> None:
    before = script.before + script.typed[:num_typed]
    head = before.splitlines(keepends=True)[-_CONTEXT_LINES:]
    tail = script.after.splitlines(keepends=True)[:4]
    text = Text("".join(head))
    text.append(ghost, style="italic bright_black")
    text.append("".join(tail).rstrip("\r\n"))
    console.rule(f"{script.path.name}, ghost text in grey")
    console.print(text)
    console.rule()


def _show_stages(console: Console, ready_ms: float, cold: _Answer, warm: _Answer) -> None:
    table = Table(title="milliseconds", title_justify="left", box=None)
    for title in ("stage", "first prompt", "last keystroke"):
        table.add_column(title, justify="left" if title == "stage" else "right")
    table.add_row("server started", f"{ready_ms:.0f}", "")
    for stage in ("debounce", "prompt", "queue", "prefill", "first_token", "decode", "trim"):
        cells = (answer.stages.get(stage) for answer in (cold, warm))
        table.add_row(stage, *("" if cell is None else f"{cell:.0f}" for cell in cells))
    table.add_row("request to ghost text", f"{cold.wall_ms:.0f}", f"{warm.wall_ms:.0f}")
    for name, count in (
        ("tokens from cache", "num_cached_tokens"),
        ("tokens prefilled", "num_prefill_tokens"),
        ("tokens decoded", "num_decoded_tokens"),
    ):
        cells = [answer.stages.get(count) for answer in (cold, warm)]
        if any(cell is not None for cell in cells):
            table.add_row(name, *("" if cell is None else f"{cell:.0f}" for cell in cells))
    console.print(table)
