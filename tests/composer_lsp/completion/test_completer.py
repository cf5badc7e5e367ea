"""The completer against an engine that streams what a test scripts."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from composer_lsp.completion.completer import Completer
from composer_lsp.completion.context import FixedContext
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.request import CompletionRequest, Suggestion, Trigger
from composer_lsp.completion.tab_engine import TabChunk, TabEngineError
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import TabSettings
from tests.composer_lsp.completion.drawn import request_at

LIMIT_S = 30


class FakeEngine:
    """Implements `TabEngine`: streams `answer` word by word, each step waiting for `gate`; to a
    request with a seed it streams that number of `sampled`, and hangs or fails where that says so.
    """

    def __init__(self, answer: str = "", *sampled: str, is_open: bool = True) -> None:
        self.answer = answer
        self.sampled = sampled
        self.seeds: list[int | None] = []
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        self.prompts: list[FimPrompt] = []
        self.num_open = 0
        self.max_open = 0
        self.num_closed_early = 0
        self.started = asyncio.Event()
        self.two_open = asyncio.Event()
        self.hanging = asyncio.Event()
        self.error: Exception | None = None
        self.num_chunks = 0
        self.first_timings: dict[str, float] = {}
        self.logprob: float | None = None
        """Of each word."""

    async def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        self.prompts.append(prompt)
        self.seeds.append(seed)
        answer = self.answer if seed is None else self.sampled[seed - 1]
        self.num_open += 1
        self.max_open = max(self.max_open, self.num_open)
        self.started.set()
        if self.num_open == 2:
            self.two_open.set()
        try:
            for word in answer.split(" "):
                await self.gate.wait()
                if word == "HANG":
                    self.hanging.set()
                    await asyncio.Event().wait()
                if word == "FAIL":
                    raise TabEngineError("gone")
                if self.error is not None:
                    raise self.error
                self.num_chunks += 1
                tokens = () if self.logprob is None else ((word, self.logprob),)
                yield TabChunk(text=word + " ", timings=self.first_timings, tokens=tokens)
            yield TabChunk(
                finish_reason="stop", timings={"queue_ms": 1, "prefill_ms": 2, "decode_ms": 3}
            )
        except (asyncio.CancelledError, GeneratorExit):
            self.num_closed_early += 1
            # Closing a connection takes its time; the next stream must wait for it.
            await asyncio.sleep(0)
            raise
        finally:
            self.num_open -= 1


def completer(engine: FakeEngine, **settings: object) -> Completer:
    tab = TabSettings(**{"debounce_ms": 0, **settings})  # type: ignore[arg-type]
    return Completer(engine, lambda: tab)


async def text_of(completer: Completer, request: CompletionRequest) -> str | None:
    async with asyncio.timeout(LIMIT_S):
        suggestions = await completer.complete(request)
    return suggestions[0].text if suggestions else None


async def texts_of(completer: Completer, request: CompletionRequest) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        return [suggestion.text for suggestion in await completer.complete(request)]


async def test_suggestion_with_every_stage_timed() -> None:
    engine = FakeEngine("1 + 2")
    request = request_at("x = ˇ\n")
    [suggestion] = await completer(engine).complete(request)
    assert (suggestion.text, suggestion.start, suggestion.end) == ("1 + 2", 4, 4)
    assert set(suggestion.timings) == {
        "debounce",
        "prompt",
        "queue",
        "prefill",
        "first_token",
        "decode",
        "trim",
        "total",
    }
    assert suggestion.timings["prefill"] == 2
    assert engine.prompts == [FimPrompt(prefix="x = ", suffix="\n", path="w/a.py")]


@pytest.mark.parametrize(
    ("logprob", "trigger", "min_score", "shown"),
    [
        (-0.1, "automatic", 0.5, True),
        (-5.0, "automatic", 0.5, False),
        (-5.0, "automatic", 0.0, True),
        (-5.0, "invoked", 0.5, True),
        (None, "automatic", 1.0, True),
    ],
)
async def test_what_the_model_doubts_is_shown_to_who_asks(
    logprob: float | None, trigger: Trigger, min_score: float, shown: bool
) -> None:
    engine = FakeEngine("1", "2", "3", "4")
    engine.logprob = logprob
    request = replace(request_at("x = ˇ\n"), trigger=trigger)
    tab = completer(engine, min_score=min_score)
    suggestions = await tab.complete(request)
    assert bool(suggestions) == shown
    assert all((each.score is None) == (logprob is None) for each in suggestions)


async def test_nothing_useful_is_none() -> None:
    assert await text_of(completer(FakeEngine("")), request_at("x = ˇ\n")) is None


async def test_typing_the_suggestion_asks_the_engine_no_more() -> None:
    engine = FakeEngine("alpha beta gamma")
    tab = completer(engine)
    assert await text_of(tab, request_at("x = ˇ\n")) == "alpha beta gamma"
    shown = "alpha beta gamma"
    for num_typed in range(1, len(shown)):
        request = request_at(f"x = {shown[:num_typed]}ˇ\n", version=1 + num_typed)
        assert await text_of(tab, request) == shown[num_typed:]
    assert len(engine.prompts) == 1


async def test_engine_stream_is_closed_when_the_trimmer_has_enough() -> None:
    engine = FakeEngine("a) b c d e f")
    assert await text_of(completer(engine), request_at("f(ˇ)\n")) == "a"
    assert engine.num_chunks < 3
    assert engine.num_open == 0


async def test_what_is_known_of_an_answer_that_is_cut_short() -> None:
    engine = FakeEngine("a) b c d e f")
    engine.first_timings = {
        "queue_ms": 1,
        "prefill_ms": 2,
        "num_cached_tokens": 40,
        "num_prefill_tokens": 7,
        "decode_ms": 0,
        "num_decoded_tokens": 1,
    }
    [suggestion] = await completer(engine).complete(request_at("f(ˇ)\n"))
    assert (suggestion.timings["queue"], suggestion.timings["prefill"]) == (1, 2)
    assert suggestion.timings["decode"] > 0
    assert suggestion.tokens == {"num_cached_tokens": 40, "num_prefill_tokens": 7}


async def test_newer_request_takes_the_place_of_the_running_one() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    first = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.started.wait()
    second = asyncio.create_task(tab.complete(request_at("z = yˇ\n", version=2)))
    async with asyncio.timeout(LIMIT_S):
        assert not await first
        engine.gate.set()
        assert await second
    assert engine.max_open == 1
    assert engine.num_closed_early == 1


async def test_burst_of_keystrokes_leaves_one_answer_and_one_stream() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    tasks: list[asyncio.Task[Sequence[Suggestion]]] = []
    for number in range(30):
        picture = "x = " + "1" * number + "ˇ\n"
        tasks.append(asyncio.create_task(tab.complete(request_at(picture, version=number))))
        await asyncio.sleep(0)
    engine.gate.set()
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*tasks)
    assert [bool(answer) for answer in answers] == [False] * 29 + [True]
    assert engine.max_open == 1 and engine.num_open == 0


async def test_an_answer_goes_on_that_says_what_is_typed() -> None:
    engine = FakeEngine("sum( values ) HANG", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.started.wait()
    for version, typed in enumerate(("s", "su", "sum"), start=2):
        await cancelled(task)
        task = asyncio.create_task(tab.complete(request_at(f"x = {typed}ˇ\n", version=version)))
        await asyncio.sleep(0)
    engine.answer = "another"
    engine.gate.set()
    await engine.hanging.wait()
    assert (len(engine.prompts), engine.num_closed_early) == (1, 0)
    await cancelled(task)
    await closed(engine)


async def test_the_rest_of_an_answer_that_went_on_is_shown() -> None:
    engine = FakeEngine("sum( values )", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.started.wait()
    await cancelled(task)
    newer = asyncio.create_task(tab.complete(request_at("x = suˇ\n", version=2)))
    await asyncio.sleep(0)
    engine.gate.set()
    async with asyncio.timeout(LIMIT_S):
        [suggestion] = await newer
    assert (suggestion.text, len(engine.prompts)) == ("m( values )", 1)


@pytest.mark.parametrize("picture", ["x = tˇ\n", "x = sˇ)\n", "y = sˇ\n", "xˇ\n"])
async def test_an_answer_that_says_otherwise_ends(picture: str) -> None:
    engine = FakeEngine("sum(values) HANG")
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.hanging.wait()
    await cancelled(task)
    engine.answer = "here"
    assert await text_of(tab, request_at(picture, version=2)) == "here"
    assert (len(engine.prompts), engine.num_closed_early) == (2, 1)


async def test_an_answer_that_nobody_waits_for_may_fail() -> None:
    engine = FakeEngine("FAIL", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.started.wait()
    await cancelled(task)
    newer = asyncio.create_task(tab.complete(request_at("x = sˇ\n", version=2)))
    await asyncio.sleep(0)
    engine.answer = "um()"
    engine.gate.set()
    async with asyncio.timeout(LIMIT_S):
        assert [each.text for each in await newer] == ["um()"]


async def test_documents_do_not_wait_for_each_other() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    tasks = [
        asyncio.create_task(tab.complete(request_at("x = ˇ\n", uri=f"file:///w/{name}.py")))
        for name in "ab"
    ]
    async with asyncio.timeout(LIMIT_S):
        await engine.two_open.wait()
        engine.gate.set()
        assert all(await asyncio.gather(*tasks))


async def test_older_version_gets_nothing() -> None:
    tab = completer(FakeEngine("value"))
    assert await text_of(tab, request_at("x = yˇ\n", version=5)) == "value"
    assert await text_of(tab, request_at("x = ˇ\n", version=4)) is None


async def closed(engine: FakeEngine) -> None:
    """Waits until no stream is open."""
    async with asyncio.timeout(LIMIT_S):
        while engine.num_open:
            await asyncio.sleep(0.01)


async def cancelled(task: "asyncio.Task[Sequence[Suggestion]]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_closes_the_stream_soon() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n")))
    await engine.started.wait()
    await cancelled(task)
    await closed(engine)
    assert engine.num_closed_early == 1
    engine.gate.set()
    assert await text_of(tab, request_at("x = ˇ\n", version=2)) == "value"


async def test_cancelling_an_explicit_request_closes_the_stream_before_it_returns() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    request = request_at("x = ˇ\n", trigger="invoked")
    task = asyncio.create_task(tab.complete(request))
    await engine.started.wait()
    await cancelled(task)
    assert engine.num_open == 0 and engine.num_closed_early == 1
    engine.gate.set()
    assert await text_of(tab, request_at("x = ˇ\n", version=2)) == "value"


@pytest.mark.parametrize("closed", ["file:///w/a.py", "file:///w/%61.py"])
async def test_closing_the_document_ends_its_request(closed: str) -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=9)))
    await engine.started.wait()
    tab.close_document(closed)
    async with asyncio.timeout(LIMIT_S):
        assert not await task
    engine.gate.set()
    assert await text_of(tab, request_at("x = ˇ\n", version=1)) == "value"


async def test_error_of_the_engine_reaches_the_caller_and_the_next_request_works() -> None:
    engine = FakeEngine("value")
    engine.error = ConnectionError("gone")
    tab = completer(engine)
    with pytest.raises(ConnectionError):
        await tab.complete(request_at("x = ˇ\n", version=1))
    engine.error = None
    assert await text_of(tab, request_at("x = yˇ\n", version=2)) == "value"


async def test_secret_file_never_reaches_a_prompt() -> None:
    engine = FakeEngine("value")
    request = request_at("KEY=ˇ\n", uri="file:///w/.env", trigger="invoked")
    assert await text_of(completer(engine), request) is None
    assert engine.prompts == []


@pytest.mark.parametrize(("trigger", "expected"), [("automatic", None), ("invoked", "value")])
async def test_disabled_is_for_automatic_requests(trigger: str, expected: str | None) -> None:
    tab = completer(FakeEngine("value"), enabled=False)
    assert await text_of(tab, request_at("x = ˇ\n", trigger=trigger)) == expected


async def test_inside_a_word_only_on_request() -> None:
    engine = FakeEngine("value")
    tab = completer(engine)
    assert await text_of(tab, request_at("naˇme\n", version=1)) is None
    assert engine.prompts == []
    await text_of(tab, request_at("naˇme\n", version=2, trigger="invoked"))
    assert len(engine.prompts) == 1


async def test_request_that_wants_nothing_ends_the_running_one() -> None:
    engine = FakeEngine("value", is_open=False)
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(request_at("x = ˇ\n", version=1)))
    await engine.started.wait()
    assert await text_of(tab, request_at("naˇme\n", version=2)) is None
    async with asyncio.timeout(LIMIT_S):
        assert not await task
    assert engine.num_open == 0


async def test_forgetting_asks_anew() -> None:
    engine = FakeEngine("value")
    tab = completer(engine)
    await text_of(tab, request_at("x = ˇ\n"))
    tab.forget_suggestions()
    await text_of(tab, request_at("x = ˇ\n"))
    assert len(engine.prompts) == 2


# Several suggestions -----------------------------------------------------------------------------


def invoked(picture: str, *, version: int = 1) -> CompletionRequest:
    request = request_at(picture, version=version, trigger="invoked")
    return replace(request, max_suggestions=3)


async def test_others_follow_the_likeliest() -> None:
    engine = FakeEngine("one", "two", "three", "four")
    tab = completer(engine)
    assert await texts_of(tab, invoked("x = ˇ\n")) == ["one", "two", "three"]
    assert engine.seeds == [None, 1, 2]
    assert engine.max_open == 1


async def test_automatic_requests_ask_once() -> None:
    engine = FakeEngine("one", "two", "three", "four")
    assert await texts_of(completer(engine), request_at("x = ˇ\n")) == ["one"]
    assert engine.seeds == [None]


async def test_the_same_and_the_empty_are_dropped() -> None:
    engine = FakeEngine("one", "one", "", "three")
    assert await texts_of(completer(engine), invoked("x = ˇ\n")) == ["one", "three"]
    assert engine.seeds == [None, 1, 2, 3]


async def test_the_same_after_trimming_is_dropped() -> None:
    engine = FakeEngine("a", "a) b", "a   ", "c")
    texts = await texts_of(completer(engine), invoked("f(ˇ)\n"))
    assert [text.strip() for text in texts] == ["a", "c"]


async def test_nothing_likely_is_nothing_at_all() -> None:
    engine = FakeEngine("", "two", "three", "four")
    assert await texts_of(completer(engine), invoked("x = ˇ\n")) == []
    assert engine.seeds == [None]


async def test_no_wait_for_others_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("composer_lsp.completion.generation.ALTERNATIVES_LIMIT_S", 0.05)
    engine = FakeEngine("one", "two", "HANG", "four")
    assert await texts_of(completer(engine), invoked("x = ˇ\n")) == ["one", "two"]
    assert engine.seeds == [None, 1, 2]
    assert engine.num_open == 0 and engine.num_closed_early == 1


async def test_cancelling_while_others_are_looked_for_closes_the_stream() -> None:
    engine = FakeEngine("one", "HANG")
    tab = completer(engine)
    task = asyncio.create_task(tab.complete(invoked("x = ˇ\n")))
    await engine.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.num_open == 0 and engine.num_closed_early == 1
    # The likeliest was there, and need not be asked for again.
    assert await texts_of(tab, request_at("x = ˇ\n", version=2)) == ["one"]
    assert engine.seeds == [None, 1]


async def test_engine_that_fails_at_others_costs_only_those() -> None:
    engine = FakeEngine("one", "two", "FAIL", "four")
    assert await texts_of(completer(engine), invoked("x = ˇ\n")) == ["one", "two"]
    assert engine.seeds == [None, 1, 2]


@pytest.mark.parametrize("shown", ["alpha = 1", "alpine = 2", "beta = 3"])
async def test_whichever_is_typed_is_served_from_memory(shown: str) -> None:
    engine = FakeEngine("alpha = 1", "alpine = 2", "beta = 3", "")
    tab = completer(engine)
    assert await texts_of(tab, invoked("ˇ\n")) == ["alpha = 1", "alpine = 2", "beta = 3"]
    for version, num_typed in enumerate(range(1, len(shown)), start=2):
        text = await text_of(tab, request_at(f"{shown[:num_typed]}ˇ\n", version=version))
        # While several go on from what was typed, it is the likeliest of them.
        assert (
            text
            == ("alpha = 1" if shown.startswith("alp") and num_typed < 4 else shown)[num_typed:]
        )
    assert len(engine.seeds) == 3


async def test_asking_again_looks_into_the_memory_first() -> None:
    engine = FakeEngine("one", "two", "three", "four")
    tab = completer(engine)
    assert await texts_of(tab, request_at("x = ˇ\n")) == ["one"]
    for version in (2, 3):
        assert await texts_of(tab, invoked("x = ˇ\n", version=version)) == ["one", "two", "three"]
    assert engine.seeds == [None, 1, 2]
    assert await texts_of(tab, request_at("x = ˇ\n", version=4)) == ["one"]


async def test_who_asks_in_a_hidden_file_is_told_why_once(caplog: pytest.LogCaptureFixture) -> None:
    tab = completer(FakeEngine("value"))
    for version, trigger in ((1, "automatic"), (2, "invoked"), (3, "invoked")):
        request = request_at("x = ˇ\n", version=version, trigger=trigger)
        hidden = replace(request.document, uri="file:///w/server.KEY")
        assert await texts_of(tab, replace(request, document=hidden)) == []
        assert len(caplog.messages) == (version > 1)
    assert "/w/server.KEY may hold secrets by its name" in caplog.text


async def test_a_file_name_that_is_no_utf_8_goes_into_the_prompt_as_text() -> None:
    engine = FakeEngine("value")
    request = request_at("xˇ\n")
    request = replace(request, document=replace(request.document, uri="file:///w/caf%E9.py"))
    assert await text_of(completer(engine), request) == "value"
    assert engine.prompts[0].path == "w/caf?.py"


async def test_text_of_other_files_brings_the_path_along() -> None:
    engine = FakeEngine("1 + 2")
    context = RepositoryContext(repository="w", snippets=(Snippet(path="w/b.py", text="B = 1"),))
    request = request_at("value = 1\n" * 30 + "x = ˇ\n", uri="file:///home/me/w/a.py")
    settings = TabSettings(debounce_ms=0)
    await Completer(engine, lambda: settings, context=FixedContext(context)).complete(request)
    [prompt] = engine.prompts
    assert (prompt.context, prompt.path, prompt.line_comment) == (context, "w/a.py", "#")
