"""llama.cpp rewriting a file, with the old text as the request's prediction and without.

The model is asked for the change, and whatever it answers greedily is measured: how much of it is
the old text is printed with it. Both are asked in turn, so that a noisy minute meets both.
"""

import difflib
import inspect
import sched
import tempfile
from pathlib import Path
from typing import Any

from bench.engines import real_engine
from bench.measure import p50, row

MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
"""The larger one does what it is told."""
TASK = "Rename the attribute `_queue` to `_events` everywhere."
MAX_TOKENS = 2000
NUM_TRIES = 3


async def run() -> None:
    for model in MODELS:
        await _measure(model, inspect.getsource(sched))


async def _measure(model: str, source: str) -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with real_engine(Path(folder), model) as client:

            async def answer(*, drafts: bool, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
                body = _body(model, source, drafts=drafts) | {"max_tokens": max_tokens}
                found = await client.post("/v1/chat/completions", json=body)
                found.raise_for_status()
                return found.json()

            # What follows finds the prompt in the cache, and the second server started.
            firsts = [await answer(drafts=drafts, max_tokens=1) for drafts in (False, True)]
            tries = [
                (await answer(drafts=False), await answer(drafts=True)) for _ in range(NUM_TRIES)
            ]
    _print(model, source, firsts, tries)


def _print(
    model: str,
    source: str,
    firsts: list[dict[str, Any]],
    tries: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    plain, drafted = tries[0]
    old, new = source.splitlines(), _code(_text(plain)).splitlines()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    is_same = "the same" if _text(plain) == _text(drafted) else "another"
    timings = drafted["timings"]
    print(
        f"{len(old)} lines; of the answer's {len(new)} lines, {_tokens(plain)} tokens, "
        f"{sum(block.size for block in blocks)} are the file's; with the prediction {is_same} answer, "
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


def _body(model: str, source: str, *, drafts: bool) -> dict[str, Any]:
    asked = f"{TASK} Answer with the whole file in one code block, everything else unchanged."
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": f"{asked}\n\n```python\n{source}```"}],
        "temperature": 0,
    }
    return body | ({"prediction": {"type": "content", "content": source}} if drafts else {})


def _text(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def _code(text: str) -> str:
    return text.split("```python\n", 1)[-1].split("```", 1)[0]


def _tokens(answer: dict[str, Any]) -> int:
    return answer["timings"]["num_decoded_tokens"]
