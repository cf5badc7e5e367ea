"""Fetches a model in a process of its own and tells the client how far it is."""

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from composer_lsp.server.editor import Editor, Progress
from composer_lsp.server.status import StatusBoard

logger = logging.getLogger(__name__)

_STOP_S = 2.0
_MAX_LINE_BYTES = 1 << 16


class ModelFetchError(Exception):
    """The model could not be fetched; the message is the fetching process's own."""


# -P: a module of the workspace must not stand in for one of ours.
PULL_COMMAND = (sys.executable, "-P", "-m", "composer_lsp", "model", "pull")


class ModelFetcher:
    def __init__(self, editor: Editor, board: StatusBoard, command: Sequence[str]) -> None:
        """`command` takes a model's name and `--json`, and prints events."""
        self._command = command
        self._editor = editor
        self._board = board
        self._running: dict[str, asyncio.Task[str]] = {}

    async def fetch(self, model: str) -> str:
        """Fetch a model of the catalogue and return its path. A second call for the same model
        waits for the first's end.

        Raises: ModelFetchError.
        """
        task = self._running.get(model)
        if task is None:
            task = asyncio.create_task(self._fetch(model))
            self._running[model] = task
            task.add_done_callback(lambda _: self._running.pop(model, None))
        # One caller's cancellation is not the other's.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Stop what runs; what was fetched so far is kept for the next try."""
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetch(self, model: str) -> str:
        progress = await self._editor.begin_progress(f"Downloading {model}", percent=0)
        self._board.set_download(model, 0)
        try:
            async with contextlib.aclosing(
                _events(model, (*self._command, model, "--json"))
            ) as events:
                async for event in events:
                    if event["event"] == "done":
                        return str(event["path"])
                    self._report(model, event, progress)
            raise ModelFetchError(f"fetching {model} ended without a result")
        finally:
            self._board.end_download()
            progress.end()

    def _report(self, model: str, event: Mapping[str, Any], progress: Progress) -> None:
        if event["event"] == "error":
            raise ModelFetchError(str(event["message"]))
        done, total = int(event["done_bytes"]), int(event["total_bytes"])
        percent = min(100, done * 100 // max(total, 1))
        progress.report(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB", percent)
        self._board.set_download(model, percent)


async def _events(model: str, command: Sequence[str]) -> AsyncGenerator[Mapping[str, Any], None]:
    """What the command prints, an object a line. Closing this ends it.

    Raises: ModelFetchError if the process fails without saying why in an event.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_MAX_LINE_BYTES,
    )
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        async for line in process.stdout:
            yield _parse_event(line)
        if await process.wait() != 0:
            raise ModelFetchError(_last_line(await errors) or f"fetching {model} failed")
    finally:
        errors.cancel()
        await _end(process)


def _parse_event(line: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise ModelFetchError(f"the fetching process said {line!r}") from error
    if not isinstance(event, dict) or "event" not in event:
        raise ModelFetchError(f"the fetching process said {line!r}")
    return cast("Mapping[str, Any]", event)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
