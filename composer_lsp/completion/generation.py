"""One request's way through the engine: debounce, prompt, stream, trimming; and once more for each
alternative that was asked for."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from composer_lsp.completion import judge
from composer_lsp.completion.answer import Answer, Place
from composer_lsp.completion.context import PromptContext
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.tab_engine import TabChunk, TabEngine, TabEngineError
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.tokens import estimated_tokens
from composer_lsp.completion.trim import Trimmer
from composer_lsp.completion.typed_through import TypedThrough
from composer_lsp.config import TabSettings

logger = logging.getLogger(__name__)

ALTERNATIVES_LIMIT_S = 1.5
"""How long the first suggestion is held back for others; no protocol lets them come later."""
_NUM_SPARE_TRIES = 1
"""Another answer often turns out to be the same one."""
_TOKEN_COUNTS = ("num_cached_tokens", "num_prefill_tokens", "num_decoded_tokens")


@dataclass(kw_only=True)
class Generation:
    engine: TabEngine
    settings: TabSettings
    window: PromptWindow
    context: PromptContext
    memory: TypedThrough
    request: CompletionRequest
    known: Sequence[Suggestion]
    """What the memory has for this place; an answer of the engine's is the first without."""
    on_answer: Callable[[Answer], None]
    """Told of every answer of the engine's, also where nothing of it is shown."""
    started: float
    wait_s: float
    _timings: dict[str, float] = field(default_factory=dict[str, float])
    _trimmer: Trimmer | None = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def may_go_on(self) -> bool:
        """Whether the engine was asked, unasked by the user: the next keystroke may be what it says."""
        return self._trimmer is not None and self.request.trigger == "automatic"

    def goes_on(self, request: CompletionRequest) -> bool:
        """Whether the answer, as far as it is known, begins with what was typed since."""
        typed = inserted(self.request, request)
        if typed is None or self._trimmer is None:
            return False
        said = self._trimmer.raw
        return said.startswith(typed) or typed.startswith(said)

    async def more(self, task: asyncio.Task[Sequence[Suggestion]]) -> None:
        """Waits until more is known of the answer; `task` runs this."""
        self._heard.clear()
        hearing = asyncio.ensure_future(self._heard.wait())
        try:
            await asyncio.wait((task, hearing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()

    async def run(self) -> Sequence[Suggestion]:
        with self._timed("debounce"):
            await asyncio.sleep(self.wait_s)
        with self._timed("prompt"):
            prompt = self._prompt()
        found = list(self.known) or await self._answers(prompt, seed=None)
        self._remember(found)
        if found and len(found) < self.request.max_suggestions:
            await self._add_alternatives(prompt, found)
            self._remember(found)
        return found

    def _prompt(self) -> FimPrompt:
        window = self.window.at(self.request, context_tokens=self.settings.context_tokens)
        return self.context.prompt(self.request, window)

    def _remember(self, found: Sequence[Suggestion]) -> None:
        # The one remembered last is the first that the memory answers with.
        for suggestion in reversed(found):
            self.memory.remember(self.request.document.text, self.request.offset, suggestion.text)

    async def _add_alternatives(self, prompt: FimPrompt, found: list[Suggestion]) -> None:
        """Look for others, one after the other, until there are enough or the time is over."""
        num_tries = self.request.max_suggestions - len(found) + _NUM_SPARE_TRIES
        try:
            async with asyncio.timeout(ALTERNATIVES_LIMIT_S):
                for seed in range(1, num_tries + 1):
                    known = {suggestion.text.strip() for suggestion in found}
                    answers = await self._answers(prompt, seed=seed)
                    found += [answer for answer in answers if answer.text.strip() not in known]
                    if len(found) == self.request.max_suggestions:
                        return
        except TimeoutError:
            pass
        except TabEngineError as error:
            logger.info("no more suggestions: %s", error)

    async def _answers(self, prompt: FimPrompt, *, seed: int | None) -> list[Suggestion]:
        """One answer, none if nothing of it is worth showing."""
        with self._timed("prompt"):
            trimmer = self._trimmer = Trimmer(self._around)
        timings = dict(self._timings)
        last = await self._stream(prompt, trimmer, seed, timings)
        trim_started = time.perf_counter()
        text = trimmer.finish(last.finish_reason or "stop")
        score = judge.score(
            text or "",
            last.tokens,
            is_cut=last.finish_reason is None,
            after=self._around.after,
        )
        timings["trim"] += ms_since(trim_started)
        timings["total"] = ms_since(self.started)
        tokens = {name: int(last.timings[name]) for name in _TOKEN_COUNTS if name in last.timings}
        answer = Answer(
            place=Place.of(self.request),
            prompt=prompt,
            raw=trimmer.raw,
            finish_reason=last.finish_reason,
            tokens=last.tokens,
            text=text,
            score=score,
            # Who asks wants to see what there is.
            min_score=self.settings.min_score if self.request.trigger == "automatic" else 0.0,
            timings=timings,
            num_tokens=tokens,
        )
        self.on_answer(answer)
        if text is None or not answer.is_shown:
            return []
        return [replace(suggestion_at(self.request, text, timings), tokens=tokens, score=score)]

    @cached_property
    def _around(self) -> Surroundings:
        return Surroundings.of(
            self.request.document.text,
            self.request.offset,
            language_id=self.request.document.language_id,
            num_indent_spaces=self.request.num_indent_spaces,
        )

    async def _stream(
        self, prompt: FimPrompt, trimmer: Trimmer, seed: int | None, timings: dict[str, float]
    ) -> TabChunk:
        """Feed the answer to the trimmer until either has enough; return its last chunk, with what
        the engine reported and the tokens in all."""
        asked = time.perf_counter()
        first_ms: float | None = None
        trim_s = 0.0
        chunk = TabChunk()
        reported: dict[str, float] = {}
        tokens: list[tuple[str, float]] = []
        stream = self.engine.complete(
            prompt,
            max_tokens=self.settings.max_tokens,
            stop=trimmer.stop,
            invoked=self.request.trigger == "invoked",
            seed=seed,
        )
        async with aclosing(stream):
            async for chunk in stream:
                reported |= chunk.timings
                tokens += chunk.tokens
                if first_ms is None and chunk.text:
                    first_ms = ms_since(asked)
                    self.context.computed(
                        self.request, prompt, _reading(prompt, reported, first_ms)
                    )
                trim_started = time.perf_counter()
                is_enough = trimmer.feed(chunk.text)
                self._heard.set()
                trim_s += time.perf_counter() - trim_started
                if is_enough:
                    break
        first_ms = ms_since(asked) if first_ms is None else first_ms
        decode_ms = ms_since(asked) - first_ms
        if chunk.finish_reason is None:  # what it said of the decoding is not the last word
            reported.pop("num_decoded_tokens", None)
        else:
            decode_ms = reported.get("decode_ms", decode_ms)
        timings |= {
            "queue": reported.get("queue_ms", 0.0),
            "prefill": reported.get("prefill_ms", first_ms),
            "first_token": first_ms,
            "decode": decode_ms,
            "trim": trim_s * 1000,
        }
        return replace(chunk, timings=reported, tokens=tuple(tokens))

    @contextmanager
    def _timed(self, stage: str) -> Generator[None]:
        started = time.perf_counter()
        yield
        self._timings[stage] = self._timings.get(stage, 0.0) + ms_since(started)


def inserted(older: CompletionRequest, newer: CompletionRequest) -> str | None:
    """What was put in at the older request's cursor, before the newer one's; None where anything else
    is another."""
    before, after = older.document.text[: older.offset], older.document.text[older.offset :]
    text, offset = newer.document.text, newer.offset
    is_all = offset >= older.offset and text[:offset].startswith(before) and text[offset:] == after
    return text[older.offset : offset] if is_all else None


def suggestion_at(
    request: CompletionRequest, text: str, timings: Mapping[str, float]
) -> Suggestion:
    return Suggestion(text=text, start=request.offset, end=request.offset, timings=timings)


def _reading(
    prompt: FimPrompt, reported: Mapping[str, float], first_ms: float
) -> Mapping[str, float]:
    """What reading the prompt cost, by the engine's word or else by the wait for its first token."""
    if "num_prefill_tokens" in reported and "prefill_ms" in reported:
        return reported
    texts = (prompt.prefix, prompt.suffix, *(each.text for each in prompt.context.snippets))
    return {"num_prefill_tokens": sum(map(estimated_tokens, texts)), "prefill_ms": first_ms}


def ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
