"""Other files' text: computed while the user rests, in prompts only from then on."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from composer_lsp.completion.context import ContextKeeper, num_new_tokens
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.repository import NO_CONTEXT, RepositoryContext, Snippet
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.completion.selection import Candidate
from composer_lsp.completion.speed import MIN_NEW_TOKENS, Speed
from composer_lsp.completion.tab_engine import TabEngineError
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import EngineSettings, Settings, TabSettings
from tests.composer_lsp.completion.drawn import request_at

LIMIT_S = 30
PIECE = Candidate(path="b.py", text="def helper(value): ...", worth=0.9)
LONG = "".join(f"value_{number} = {number}\n" for number in range(200))


class Fake:
    """Sources, and an engine that reads prompts in the background; `gate` holds it up."""

    def __init__(self, *candidates: Candidate) -> None:
        self.candidates: Sequence[Candidate] | None = candidates
        self.gathered: list[CompletionRequest] = []
        self.prepared: list[FimPrompt] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.num_cancelled = 0
        self.hidden: set[str] = set()
        self.timings: Mapping[str, float] = {}

    async def gather(self, request: CompletionRequest) -> Sequence[Candidate] | None:
        self.gathered.append(request)
        return self.candidates

    def repository_of(self, path: str) -> str:
        return "repo"

    def is_hidden(self, path: str) -> bool:
        return path in self.hidden

    async def prepare(self, prompt: FimPrompt) -> Mapping[str, float]:
        self.prepared.append(prompt)
        self.started.set()
        if self.error is not None:
            raise self.error
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        return self.timings


def measured(tokens_per_s: float = 80) -> Speed:
    speed = Speed()
    speed.observe({"num_prefill_tokens": tokens_per_s, "prefill_ms": 1000})
    return speed


def keeper(fake: Fake, speed: Speed, settings: Settings | None = None) -> ContextKeeper:
    return ContextKeeper(
        sources=fake,
        prepare=fake.prepare,
        speed=speed,
        settings=lambda: settings or Settings(),
        rest_s=0.0,
    )


def window_of(request: CompletionRequest) -> FimPrompt:
    return PromptWindow().prompt(request.document.text, request.offset, context_tokens=1536)


async def rest(keeper: ContextKeeper, request: CompletionRequest) -> None:
    async with asyncio.timeout(LIMIT_S):
        await keeper.rest(request, window_of(request))


def ask(keeper: ContextKeeper, request: CompletionRequest) -> FimPrompt:
    return keeper.prompt(request, window_of(request))


async def test_other_files_are_in_the_prompt_once_they_are_computed() -> None:
    fake = Fake(PIECE)
    fake.gate.clear()
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    resting = asyncio.ensure_future(rest(context, request))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    assert ask(context, request).context == NO_CONTEXT
    fake.gate.set()
    await resting
    prompt = ask(context, request)
    expected = RepositoryContext(
        repository="repo", snippets=(Snippet(path="b.py", text=PIECE.text),)
    )
    assert (prompt.context, prompt.path, prompt.line_comment) == (expected, "w/a.py", "#")
    assert fake.prepared == [prompt]


async def test_a_prompt_that_is_not_computed_is_asked_for_in_short() -> None:
    fake = Fake()
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n" + LONG)
    short = ask(context, request)
    assert num_new_tokens(short, ()) <= MIN_NEW_TOKENS
    assert (LONG + "x = ").endswith(short.prefix)
    assert ask(context, replace(request, trigger="invoked")) == window_of(request)
    await rest(context, request)
    assert ask(context, request) == window_of(request)
    typed = request_at(LONG + "x = some_ˇ\n" + LONG)
    assert ask(context, typed) == window_of(typed)


async def test_a_fast_engine_or_an_unknown_one_gets_whole_prompts() -> None:
    request = request_at(LONG + "x = ˇ\n" + LONG)
    for speed in (measured(5000), Speed()):
        fake = Fake()
        context = keeper(fake, speed)
        assert ask(context, request) == window_of(request)


async def test_a_fast_engine_needs_nothing_computed_ahead() -> None:
    fake = Fake(PIECE)
    context = keeper(fake, measured(5000))
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    assert fake.prepared == []
    assert ask(context, request).context.snippets


async def test_the_first_prompt_computed_measures_the_engine() -> None:
    fake = Fake(PIECE)
    fake.timings = {"num_prefill_tokens": 1000, "prefill_ms": 10_000}
    speed = Speed()
    context = keeper(fake, speed)
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    assert (speed.tokens_per_s, fake.gathered) == (100, [])
    await rest(context, request)
    assert ask(context, request).context.snippets


async def test_an_answer_leads_to_other_files_being_looked_at() -> None:
    fake = Fake(PIECE)
    context = keeper(fake, measured())
    request = request_at("x = ˇ\n")
    context.computed(request, ask(context, request), {})
    async with asyncio.timeout(LIMIT_S):
        while not ask(context, request).context.snippets:
            await asyncio.sleep(0)
    assert fake.gathered == [request]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(tab=TabSettings(retrieval=False)),
        Settings(tab=TabSettings(prepare_ahead=False)),
        Settings(engine=EngineSettings(context_tokens=1600)),
    ],
)
async def test_settings_and_room_that_leave_other_files_out(settings: Settings) -> None:
    fake = Fake(PIECE)
    context = keeper(fake, measured(), settings)
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    assert ask(context, request).context == NO_CONTEXT
    assert bool(fake.prepared) == settings.tab.prepare_ahead


async def test_another_document_ends_what_is_computed_for_the_last_one() -> None:
    fake = Fake()
    fake.gate.clear()
    context = keeper(fake, measured())
    first = asyncio.ensure_future(rest(context, request_at(LONG + "ˇ")))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    second = asyncio.ensure_future(
        rest(context, request_at(LONG + "y = ˇ", uri="file:///w/other.py"))
    )
    await first
    fake.gate.set()
    await second
    assert (fake.num_cancelled, len(fake.prepared)) == (1, 2)


async def test_another_place_ends_what_is_computed_for_the_last_one() -> None:
    fake = Fake()
    fake.gate.clear()
    context = keeper(fake, measured())
    other = LONG.replace("value", "other")
    first = asyncio.ensure_future(rest(context, request_at(f"{LONG}ˇ{other}")))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    second = asyncio.ensure_future(rest(context, request_at(f"{LONG}{other}ˇ")))
    await first
    fake.gate.set()
    await second
    assert (fake.num_cancelled, len(fake.prepared)) == (1, 2)


async def test_rests_beside_each_other_are_seen_to_once() -> None:
    fake = Fake(PIECE)
    fake.gate.clear()
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    rests = [asyncio.ensure_future(rest(context, request)) for _ in range(3)]
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    fake.gate.set()
    await asyncio.gather(*rests)
    assert (fake.num_cancelled, len(fake.prepared)) == (0, 1)


async def test_closing_a_document_ends_its_work() -> None:
    fake = Fake()
    fake.gate.clear()
    context = keeper(fake, measured())
    request = request_at(LONG + "ˇ")
    resting = asyncio.ensure_future(rest(context, request))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    context.forget(request.document.uri)
    await resting
    assert fake.num_cancelled == 1


async def test_an_engine_that_fails_leaves_the_prompt_as_it_was() -> None:
    fake = Fake(PIECE)
    fake.error = TabEngineError("gone")
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    assert ask(context, request).context == NO_CONTEXT


async def test_sources_that_cannot_tell_change_nothing() -> None:
    fake = Fake(PIECE)
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    before = ask(context, request).context
    fake.candidates = None
    await rest(context, request)
    assert ask(context, request).context is before


async def test_a_file_that_was_hidden_since_leaves() -> None:
    fake = Fake(PIECE, replace(PIECE, path="c.py"))
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    fake.candidates, fake.hidden = (), {"b.py"}
    await rest(context, request)
    assert [each.path for each in ask(context, request).context.snippets] == ["c.py"]


async def test_another_model_has_computed_nothing() -> None:
    fake = Fake(PIECE)
    speed = measured()
    context = keeper(fake, speed)
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    context.forget_computed()
    assert ask(context, request).context == NO_CONTEXT
    assert speed.tokens_per_s is None


PROMPT = FimPrompt(prefix="abc " * 30, suffix="def " * 30)


@pytest.mark.parametrize(
    ("computed", "num_new"),
    [
        ((), 80),
        ((PROMPT,), 0),
        ((replace(PROMPT, prefix="abc " * 15),), 20),
        ((replace(PROMPT, prefix="abc " * 40),), 0),
        ((replace(PROMPT, suffix="other"),), 80),
        ((replace(PROMPT, path="p"), replace(PROMPT, prefix="abc " * 15 + "other")), 20),
    ],
)
def test_tokens_that_are_new_to_the_engine(computed: Sequence[FimPrompt], num_new: int) -> None:
    assert num_new_tokens(PROMPT, computed) == num_new


async def test_a_file_that_was_hidden_is_in_no_prompt_from_then_on() -> None:
    fake = Fake(PIECE, replace(PIECE, path="c.py"))
    context = keeper(fake, measured())
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    fake.hidden = {"b.py"}
    for trigger in ("invoked", "automatic"):
        prompt = ask(context, replace(request, trigger=trigger))
        assert [each.path for each in prompt.context.snippets] == ["c.py"]


async def test_other_files_that_are_turned_off_are_in_no_prompt_from_then_on() -> None:
    fake = Fake(PIECE)
    chosen = [Settings()]
    context = ContextKeeper(
        sources=fake,
        prepare=fake.prepare,
        speed=measured(),
        settings=lambda: chosen[-1],
        rest_s=0.0,
    )
    request = request_at(LONG + "x = ˇ\n")
    await rest(context, request)
    assert ask(context, request).context.snippets
    chosen.append(Settings(tab=TabSettings(retrieval=False)))
    assert ask(context, request).context == NO_CONTEXT


async def test_a_document_closed_by_another_spelling_of_its_uri_ends_its_work() -> None:
    fake = Fake()
    fake.gate.clear()
    context = keeper(fake, measured())
    resting = asyncio.ensure_future(rest(context, request_at(LONG + "ˇ", uri="file:///w/a b.py")))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    context.forget("file:///w/a%20b.py")
    await resting
    assert fake.num_cancelled == 1


async def test_nothing_is_begun_for_a_document_that_is_closed_while_the_user_goes_elsewhere() -> (
    None
):
    fake = Fake()
    fake.gate.clear()
    context = keeper(fake, measured())
    other = LONG.replace("value", "other")
    first = asyncio.ensure_future(rest(context, request_at(f"{LONG}ˇ{other}")))
    await asyncio.wait_for(fake.started.wait(), LIMIT_S)
    request = request_at(f"{LONG}{other}ˇ")
    second = asyncio.ensure_future(rest(context, request))
    await asyncio.sleep(0)
    context.forget(request.document.uri)
    fake.gate.set()
    await asyncio.gather(first, second)
    assert len(fake.prepared) == 1
