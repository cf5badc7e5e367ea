"""Prompts that hold their last token back, against a server that takes grammars."""

from contextlib import aclosing
from typing import Any

import pytest
from starlette.responses import Response

from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import RoleSettings
from composer_lsp.engine.client import remote_client
from composer_lsp.engine.healed import beginning_with
from composer_lsp.engine.tab import Forcing, stream_completion
from tests.composer_lsp.engine.servers import Answer, FakeServer, on_port, streamed


def tokens(*pieces: tuple[str, float]) -> Answer:
    """A stream of tokens with their log-probabilities."""
    events: list[dict[str, Any] | str] = [
        {
            "choices": [
                {
                    "index": 0,
                    "text": text,
                    "logprobs": {"tokens": [text], "token_logprobs": [logprob]},
                    "finish_reason": None,
                }
            ]
        }
        for text, logprob in pieces
    ]
    return streamed(*events, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})


async def ask(
    server: FakeServer,
    prefix: str,
    forcing: Forcing = Forcing.GRAMMAR,
    *,
    fim_template: str = "auto",
    seed: int | None = None,
    prediction: str = "",
) -> str:
    async with on_port(server) as url:
        client = remote_client(RoleSettings(url=url), "tab")
        chunks = stream_completion(
            client,
            FimPrompt(prefix=prefix, suffix="", prediction=prediction),
            model="qwen",
            fim_template=fim_template,
            forcing=forcing,
            max_tokens=8,
            stop=(),
            seed=seed,
        )
        async with aclosing(chunks):
            text = "".join([chunk.text async for chunk in chunks])
        await client.aclose()
    return text


async def test_answer_is_held_to_its_beginning() -> None:
    server = FakeServer(tokens((" foo", -5.0), ("(1)", -0.1)))
    assert await ask(server, "x = fo") == "o(1)"
    [seen] = server.seen
    assert seen.body["prompt"].endswith("<|fim_middle|>x =")
    assert seen.body["grammar"] == 'root ::= " fo" [^\\x00]*'
    assert seen.body["max_tokens"] >= 8


@pytest.mark.parametrize(
    ("forcing", "sent"),
    [
        (Forcing.GRAMMAR, {"type": "content", "content": "y = 1"}),
        (Forcing.NONE, {"type": "content", "content": "y = 1"}),
        (Forcing.UNKNOWN, None),
    ],
)
async def test_engines_of_ours_are_told_what_the_answer_repeats(
    forcing: Forcing, sent: object
) -> None:
    server = FakeServer(tokens((" y", -0.1)))
    await ask(server, "", forcing, prediction="y = 1")
    await ask(server, "", forcing)
    assert [seen.body.get("prediction") for seen in server.seen] == [sent, None]


async def test_likely_word_in_two_tokens_is_taken() -> None:
    server = FakeServer(tokens((".load", -0.1), ("s_all", -1.0), ("(", -0.1)))
    assert await ask(server, "json.loads") == "_all("
    assert len(server.seen) == 1


async def test_word_that_was_met_by_chance_is_asked_for_whole() -> None:
    def answer(server: FakeServer, body: dict[str, Any]) -> Response:
        by_chance = (".load", -0.1), ("self", -10.8)
        pieces = by_chance if "grammar" in body else (("(path)", -0.2),)
        return tokens(*pieces)(server, body)

    server = FakeServer(answer)
    assert await ask(server, "json.loads") == "(path)"
    assert server.seen[1].body["prompt"].endswith("<|fim_middle|>json.loads")


async def test_engine_without_grammar_gets_the_whole_text() -> None:
    server = FakeServer(tokens(("o", -0.1)))
    assert await ask(server, "x = fo", Forcing.NONE) == "o"
    [seen] = server.seen
    assert seen.body["prompt"].endswith("x = fo")
    assert "grammar" not in seen.body


@pytest.mark.parametrize("fim_template", ["auto", "suffix", "infill"])
async def test_a_seed_asks_for_another_answer(fim_template: str) -> None:
    server = FakeServer(tokens(("o", -0.1)))
    await ask(server, "x = ", fim_template=fim_template)
    await ask(server, "x = ", fim_template=fim_template, seed=2)
    likeliest, other = (seen.body for seen in server.seen)
    assert likeliest["temperature"] == 0 and "seed" not in likeliest
    assert other["temperature"] == 0.8 and other["seed"] == 2


@pytest.mark.parametrize(
    ("text", "grammar"),
    [
        ('("', 'root ::= "(\\"" [^\\x00]*'),
        ("\\", 'root ::= "\\\\" [^\\x00]*'),
        ("\t", 'root ::= "\\U00000009" [^\\x00]*'),
        (" μ", 'root ::= " μ" [^\\x00]*'),
    ],
)
def test_grammar_is_escaped(text: str, grammar: str) -> None:
    assert beginning_with(text) == grammar
