"""What the language server adds to a keystroke: the deterministic engine answers at once."""

import json
import tempfile
import time
from pathlib import Path

import psutil

from bench.engines import scripted_engine
from bench.measure import p50, p90, row
from tests.support.lsp import LspClient, start_server

NUM_KEYSTROKES = 100
SOURCE = "def compute(a, b):\n    return a + b\n\n\n" * 250


async def run() -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with (
            scripted_engine(Path(folder), write_script(Path(folder))),
            start_server(Path(folder)) as client,
        ):
            await client.initialize(initializationOptions={"tab": {"debounceMs": 0}})
            times = await keystroke_times(client)
            memory = psutil.Process(client.process.pid).memory_info().rss / 1e6
    row("didChange to suggestion, ms (1,000 lines)", "p50", "p90")
    row("", f"{p50(times):.1f}", f"{p90(times):.1f}")
    row("resident memory after it, MB", f"{memory:.0f}")


def write_script(folder: Path) -> Path:
    """For an engine that answers at once."""
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": [{"match": "", "text": "value + 1"}]}))
    return script


async def keystroke_times(client: LspClient) -> list[float]:
    """Milliseconds from `didChange` to the suggestion, at the end of a long document."""
    uri, line = "untitled:bench.py", SOURCE.count("\n")
    client.open(uri, SOURCE)
    return [await _keystroke(client, uri, line, column) for column in range(NUM_KEYSTROKES)]


async def _keystroke(client: LspClient, uri: str, line: int, column: int) -> float:
    position = {"line": line, "character": column}
    started = time.perf_counter()
    client.change(uri, column + 2, {"range": {"start": position, "end": position}, "text": "x"})
    await client.inline_completion(uri, {"line": line, "character": column + 1})
    return 1000 * (time.perf_counter() - started)
