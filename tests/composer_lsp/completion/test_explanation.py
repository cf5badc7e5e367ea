"""What is told of a suggestion, from its answer and again from a saved one."""

import json
from dataclasses import fields, replace

import pytest

from composer_lsp.completion.answer import Answer, AnswerFileError, Place, read_answer
from composer_lsp.completion.explanation import as_markdown, explained
from composer_lsp.completion.judge import Features
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.trim import Trimmer
from tests.composer_lsp.completion.drawn import request_at
from tests.composer_lsp.completion.test_completer import FakeEngine, completer

PICTURE = "def f():\n    return g(ˇ)\n\nx = 1\n"


def answer(
    raw: str = "a, b)\nx = 1\n", *, picture: str = PICTURE, finish_reason="stop", **changes: object
) -> Answer:
    request = request_at(picture)
    place = Place.of(request)
    trimmer = Trimmer(place.surroundings)
    trimmer.feed(raw)
    made = Answer(
        place=place,
        prompt=FimPrompt(
            prefix=place.before,
            suffix=place.after,
            context=RepositoryContext(snippets=(Snippet(path="b.py", text="def g(a, b): ..."),)),
        ),
        raw=raw,
        finish_reason=finish_reason,
        tokens=(("a", -0.5), (",", -0.25), (" b", -0.1), (")", -2.0)),
        text=trimmer.finish(finish_reason or "stop"),
        score=0.75,
        min_score=0.5,
        timings={"total": 12.34, "prefill": 5.0},
        num_tokens={"num_cached_tokens": 100, "num_prefill_tokens": 7},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("picture", "raw", "reason", "rules"),
    [
        ("x = f(ˇ)\n", "a)", "stop", ["a bracket that is closed already"]),
        ("x = 'ˇ'\n", "a'", "stop", ["a quote that is closed already"]),
        ("x = 'ˇ'\n", "'a'", "stop", ["the opening quote said again", "a quote that is closed already"]),
        ("x = ˇ\n", "1<|endoftext|>2", "stop", ["a model's mark"]),
        ("ˇ\n", "x = 1\n```", "stop", ["a code fence", "white space"]),
        ("xˇ = 1\n", "y\nz", "stop", ["more lines, in the middle of one"]),
        ("f(ˇ, second)\n", "a, second)", "stop", ["the rest of the line said again"]),
        ("ˇ\n", "counter.add(1)\n" * 3, "stop", ["a loop"]),
        ("ˇ\nvalue = g(1)\nh(2)\n", "x = 1\nvalue = g(1)\n", "stop", ["lines that stand below"]),
        ("value = g(1)\nˇ\n", "y = 2\nvalue = g(1)\n", "stop", ["lines that stand above"]),
        ("x = ˇ\n", "1\ny = 2\n", "stop", ["behind the block's end"]),
        ("for a in b:\n    ˇ\n        c(a)\n", "if a:\n        d(a)\n", "stop", ["the body that stands below"]),
        ("ˇ\n", "\n\nx = 1", "stop", ["blank lines first"]),
        ("    return ˇ\n", "return x", "stop", ["the cursor's line said again"]),
        ("if a:\n\tˇ\n", "if b:\n\t        c()", "stop", ["other indentation than the file's"]),
        ("x = ˇ\n", "first + seco", "length", ["broken off by the limit", "white space"]),
        ("f(ˇ, second)\n", "first, sec", "stop", ["the line's rest begun again"]),
        ("ˇ\nvalue = compute(1)\n", "x = 1\nvalue = comp", "stop", ["a line below begun again"]),
        ("x = f(ˇ)\n", "a b", "stop", ["parses worse than without it"]),
        ("x = ˇ\n", "1  ", "stop", ["white space"]),
        ("x = ˇ\n", "1", "stop", []),
    ],
)  # fmt: skip
def test_each_rule_is_named_with_what_it_removed(
    picture: str, raw: str, reason: str, rules: list[str]
) -> None:
    told = explained(answer(raw, picture=picture, finish_reason=reason))
    assert [step.rule for step in told.trims] == rules
    for step, following in zip(told.trims, told.trims[1:], strict=False):
        assert step.after == following.before
    assert told.is_as_saved


def test_everything_is_told() -> None:
    told = explained(answer())
    found = told.as_json()
    assert [part["name"] for part in found["prompt"]] == [
        "b.py",
        "After the cursor",
        "Before the cursor",
    ]
    assert all(part["tokens"] > 0 for part in found["prompt"])
    assert (found["line"], found["column"], found["trigger"]) == (2, 14, "automatic")
    assert found["raw"] == "a, b)\nx = 1\n"
    assert found["trims"] == [
        {"rule": "a bracket that is closed already", "removed": ")\nx = 1\n", "left": "a, b"}
    ]
    assert found["text"] == "a, b"
    assert set(found["features"]) == {each.name for each in fields(Features)}
    assert found["timings"] == {"total": 12.3, "prefill": 5.0}
    assert found["tokens"] == {"num_cached_tokens": 100, "num_prefill_tokens": 7}
    json.dumps(found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Shown:"),
        ({"score": 0.25}, "Nothing was shown: the score is below 0.5."),
        ({"text": None, "raw": "<|endoftext|>"}, "trimming left nothing"),
        ({"score": None, "tokens": ()}, "the engine told no log-probabilities"),
        ({"text": "other"}, "trimming left something else"),
        ({"finish_reason": "length"}, "the limit on tokens was reached"),
        ({}, "100 cached, 7 prefilled, 4 decoded"),
        ({}, "prefill 5.0, total 12.3"),
        ({"raw": "````\n"}, "`````\n````\n"),
    ],
)
def test_for_people(changes: dict[str, object], said: str) -> None:
    assert said in as_markdown(explained(answer(**changes)))  # type: ignore[arg-type]


def test_what_is_left_of_an_answer_on_the_screen() -> None:
    assert "From memory" not in as_markdown(explained(answer()), shown="a, b")
    assert "From memory" in as_markdown(explained(answer()), shown=" b")


@pytest.mark.parametrize("finish_reason", ["stop", "length", None])
def test_a_saved_answer_is_read_as_it_was(finish_reason: str | None) -> None:
    made = answer(finish_reason=finish_reason)
    read = read_answer(json.dumps(made.as_json()))
    assert read == made
    assert explained(read) == explained(made)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"place": 1}', '"x"', "null"])
def test_what_is_no_saved_answer(text: str) -> None:
    with pytest.raises(AnswerFileError, match="it is no"):
        read_answer(text)


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [("ab", 1, (1, 2)), ("a\nb", 2, (2, 1)), ("a\r\nbc", 4, (2, 2)), ("a\rbc", 3, (2, 2)), ("", 0, (1, 1))],
)  # fmt: skip
def test_line_and_column(text: str, offset: int, place: tuple[int, int]) -> None:
    request = CompletionRequest(
        document=replace(request_at("ˇ").document, text=text), offset=offset
    )
    found = Place.of(request)
    assert (found.line, found.column) == place


async def test_the_completer_keeps_answers_of_which_nothing_is_shown_too() -> None:
    engine = FakeEngine("a, b)")
    engine.logprob = -9.0
    tab = completer(engine, min_score=0.5)
    assert tab.answers.latest() is None
    assert not await tab.complete(request_at(PICTURE))
    kept = tab.answers.latest()
    assert kept is not None
    assert (kept.raw, kept.text, kept.is_shown) == ("a, b) ", "a, b", False)
    assert explained(kept).is_as_saved


async def test_the_answer_of_what_is_on_the_screen() -> None:
    engine = FakeEngine("first, b")
    tab = completer(engine)
    await tab.complete(request_at(PICTURE))
    engine.answer = "second"
    await tab.complete(request_at("y = h(ˇ)\n", version=2))
    assert [
        found.text for shown in (None, "b", "nd", "?") if (found := tab.answers.latest(shown))
    ] == ["second", "first, b", "second", "second"]
