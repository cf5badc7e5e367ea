"""The real server over a service that does what the document's line says, run as a process.

The service reports to a file, one line an event, since nothing but LSP may go to stdout.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from composer_lsp.server.stdio import take_streams

STDIN, STDOUT = take_streams()

from composer_lsp.completion.answer import Answer, Place  # noqa: E402
from composer_lsp.completion.request import CompletionRequest, Suggestion  # noqa: E402
from composer_lsp.completion.templates import FimPrompt  # noqa: E402
from composer_lsp.next_edit.content import Filled  # noqa: E402
from composer_lsp.server.factory import create_server  # noqa: E402
from composer_lsp.server.logs import set_up_logging  # noqa: E402
from composer_lsp.server.service import (  # noqa: E402
    ModelMissingError,
    ServiceError,
    ServiceHost,
    ServiceOfflineError,
)

EVENTS = Path(os.environ["FAKE_EVENTS"])
PULL = os.environ.get("FAKE_PULL", "raise SystemExit('no puller')")


def report(event: str) -> None:
    with EVENTS.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(event + "\n")


class FakeService:
    """The word before the cursor's last space says what happens; every other text gets
    `<suggestion>`."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._last: CompletionRequest | None = None

    async def warm_up(self) -> None:
        report("warm up")

    async def prepare(self, request: CompletionRequest) -> bool:
        line = request.document.text[: request.offset].rpartition("\n")[2]
        report(f"prepare {line}")
        return line != "hidden"

    async def complete(self, request: CompletionRequest) -> Sequence[Suggestion]:
        text, offset = request.document.text, request.offset
        self._last = request
        line = text[:offset].splitlines()[-1] if text[:offset] else ""
        report(f"complete {request.trigger} {request.document.language_id} {line}")
        tab = self._host.settings().tab
        if request.trigger == "automatic" and (
            not tab.enabled or request.document.language_id in tab.disabled_languages
        ):
            return ()
        words = line.split()
        if words[-1:] == ["several"]:
            numbers = range(1, request.max_suggestions + 1)
            return [Suggestion(text=f"<{n}>", start=offset, end=offset) for n in numbers]
        suggestion = await self._act(words[-1] if words else "", text, offset)
        return () if suggestion is None else (suggestion,)

    async def _act(self, word: str, text: str, offset: int) -> Suggestion | None:
        match word:
            case "slow":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    report("cancelled")
                    raise
            case "never":
                return None
            case "print":
                print("an accidental print")
                subprocess.run(["echo", "a child's print"], check=True)  # noqa: ASYNC221
                return None
            case "fail":
                raise ServiceError("the engine refuses: mend it so")
            case "offline":
                raise ServiceOfflineError("the engine is gone", is_for_user=False)
            case "missing":
                raise ModelMissingError("no such model", "smollm2-135m")
            case "nonsense":
                raise ModelMissingError("no such model", "nope")
            case "crash":
                raise RuntimeError("a bug of ours")
            case "loading":
                self._host.on_condition("loading", "Loading the model")
                return None
            case "ready":
                self._host.on_model("a-model")
                self._host.on_condition("ready", "")
                return None
            case "roots":
                return Suggestion(text=",".join(self._host.roots()), start=offset, end=offset)
            case "settings":
                limit = self._host.settings().tab.max_tokens
                return Suggestion(text=str(limit), start=offset, end=offset)
            case "sell":
                return Suggestion(text="_umbrella()", start=offset, end=offset)
            case "pair":
                return Suggestion(text="x)", start=offset, end=offset + 1)
            case "block":
                # A blocked event loop, which a dead client must not wait for.
                time.sleep(600)  # noqa: ASYNC251
        return Suggestion(text="<suggestion>", start=offset, end=offset)

    async def infill(self, prompt: FimPrompt, *, max_tokens: int, stop: Sequence[str]) -> Filled:
        report(f"infill {prompt.prefix.rpartition(chr(10))[2]}")
        report(f"diffs {[each.text for each in prompt.context.snippets]!r}")
        if "slow" in prompt.suffix:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                report("infill cancelled")
                raise
        if "refuse" in prompt.suffix:
            raise ServiceError("the engine refuses: mend it so")
        return Filled(text="1")

    def opened(self, language_id: str) -> None:
        report(f"opened {language_id}")

    def answer(self, shown: str | None) -> Answer | None:
        """As of an engine that ended with a mark."""
        if self._last is None:
            return None
        return Answer(
            place=replace(Place.of(self._last), language_id="plaintext"),
            prompt=FimPrompt(prefix="", suffix=""),
            raw=f"{shown or ''}<|endoftext|>",
            finish_reason="stop",
            tokens=(),
            text=shown,
            score=None,
            min_score=0.5,
            timings={"total": 1.0},
            num_tokens={},
        )

    def forget(self, uri: str) -> None:
        report(f"forget {uri}")

    def settings_changed(self) -> None:
        report("settings changed")

    async def restart(self) -> None:
        report("restart")

    async def close(self) -> None:
        report("close")


async def make_service(host: ServiceHost) -> FakeService:
    return FakeService(host)


if __name__ == "__main__":
    set_up_logging(os.environ.get("COMPOSER_LOG_LEVEL", "info").upper())
    server = create_server(make_service, (sys.executable, "-c", PULL))
    sys.exit(server.run(STDIN, STDOUT))
