"""What an editor asks where its user rests, with the patience that a busy machine takes."""

import time
from dataclasses import dataclass
from typing import Any

from tests.support.lsp import LspClient

_LIMIT_S = 600.0
"""For a prompt of two thousand tokens."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rested:
    items: list[JsonObject]
    ms: float
    """Of the answer, whose prompt was computed before."""


async def prepare(lsp: LspClient, uri: str, position: JsonObject) -> float:
    """Have the prompt at a place computed; how many milliseconds that took.

    Raises: LspError.
    """
    here = {"uri": uri, "range": {"start": position, "end": position}}
    started = time.perf_counter()
    params = {"command": "composer.prepare", "arguments": [here]}
    await answered(lsp, lsp.begin("workspace/executeCommand", params))
    return 1000 * (time.perf_counter() - started)


async def suggested(lsp: LspClient, uri: str, position: JsonObject) -> Rested:
    """What is shown there unasked. Raises: LspError."""
    started = time.perf_counter()
    result = await answered(lsp, lsp.begin_inline_completion(uri, position))
    items: list[JsonObject] = result["items"] if result else []
    return Rested(items=items, ms=1000 * (time.perf_counter() - started))


async def answered(lsp: LspClient, sent: int) -> Any:
    """The result of a request that was begun. Raises: LspError."""
    await lsp.wait_for(
        lambda message: message.get("id") == sent and "method" not in message, limit_s=_LIMIT_S
    )
    return await lsp.answer(sent)
