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

import httpx

from bench.engines import MODEL, real_engine
from bench.measure import p50, row

TASK = "Rename the attribute `_queue` to `_events` everywhere."
MAX_TOKENS = 2000
NUM_TRIES = 3


async def run() -> None:
    source = inspect.getsource(sched)
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with real_engine(Path(folder)) as client:
            # What follows finds the prompt in the cache, and the second server started.
            firsts = [
                await _answer(client, source, drafts, max_tokens=1) for drafts in (False, True)
            ]
            tries = [
                (await _answer(client, source, False), await _answer(client, source, True))
                for _ in range(NUM_TRIES)
            ]
    _print(source, firsts, tries)


def _print(
    source: str, firsts: list[dict[str, Any]], tries: list[tuple[dict[str, Any], dict[str, Any]]]
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
    row(MODEL, f"{drafted_ms:.1f}", f"{plain_ms:.1f}", f"{ratio:.2f}", f"{ceiling:.2f}")


async def _answer(
    client: httpx.AsyncClient, source: str, drafts: bool, *, max_tokens: int = MAX_TOKENS
) -> dict[str, Any]:
    asked = f"{TASK} Answer with the whole file in one code block, everything else unchanged."
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{asked}\n\n```python\n{source}```"}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    if drafts:
        body["prediction"] = {"type": "content", "content": source}
    answer = await client.post("/v1/chat/completions", json=body)
    answer.raise_for_status()
    return answer.json()


def _text(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def _code(text: str) -> str:
    return text.split("```python\n", 1)[-1].split("```", 1)[0]


def _tokens(answer: dict[str, Any]) -> int:
    return answer["timings"]["num_decoded_tokens"]
