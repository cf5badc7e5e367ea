"""llama.cpp rewriting a file, with the old text as the request's prediction and without.

The model is asked for the change of `edit_task`, and whatever it answers greedily is measured: how much of the
file it changed is printed with it. Both are asked in turn, so that a noisy minute meets both.
"""

import tempfile
from pathlib import Path
from typing import Any

from bench.edit_task import PREDICTION, PROMPT, told
from bench.engines import real_engine
from bench.measure import p50, row

MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
MAX_TOKENS = 2000
NUM_TRIES = 3


async def run() -> None:
    for model in MODELS:
        await _measure(model)


async def _measure(model: str) -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with real_engine(Path(folder), model) as client:

            async def answer(*, drafts: bool, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
                body = _body(model, drafts=drafts) | {"max_tokens": max_tokens}
                found = await client.post("/v1/completions", json=body)
                found.raise_for_status()
                return found.json()

            # What follows finds the prompt in the cache, and the second server started.
            firsts = [await answer(drafts=drafts, max_tokens=1) for drafts in (False, True)]
            tries = [
                (await answer(drafts=False), await answer(drafts=True)) for _ in range(NUM_TRIES)
            ]
    _print(model, firsts, tries)


def _print(
    model: str,
    firsts: list[dict[str, Any]],
    tries: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    plain, drafted = tries[0]
    is_same = "the same" if _text(plain) == _text(drafted) else "another"
    timings = drafted["timings"]
    print(
        f"{told(_text(plain), _tokens(plain))}; with the prediction {is_same} answer, "
        f"{timings['num_draft_accepted']} of {timings['num_drafted']} drafted tokens were right"
    )
    plain_ms = p50([each["timings"]["decode_ms"] / _tokens(each) for each, _ in tries])
    drafted_ms = p50([each["timings"]["decode_ms"] / _tokens(each) for _, each in tries])
    prefill_ms = min(
        first["timings"]["prefill_ms"] / first["timings"]["num_prefill_tokens"] for first in firsts
    )
    row("ms a token (median)", "prediction", "plain", "ratio", "ceiling")
    ratio, ceiling = plain_ms / drafted_ms, plain_ms / prefill_ms
    row(model, f"{drafted_ms:.1f}", f"{plain_ms:.1f}", f"{ratio:.2f}", f"{ceiling:.2f}")


def _body(model: str, *, drafts: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "prompt": PROMPT, "temperature": 0}
    return body | ({"prediction": {"type": "content", "content": PREDICTION}} if drafts else {})


def _text(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["text"]


def _tokens(answer: dict[str, Any]) -> int:
    return answer["timings"]["num_decoded_tokens"]
