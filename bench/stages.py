"""What a keystroke's own work takes, without an engine: the prompt's window, and an answer that is
trimmed with each token that comes, which the engine meanwhile goes on from, and judged after the last.
The budget is 10 ms for the first and 5 ms for the last, p90.

Places are drawn from this repository's sources; the answer is what stands there, and goes on.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import p50, p90, row
from composer_lsp.completion import judge
from composer_lsp.completion.languages import language_of
from composer_lsp.completion.parsing import load_grammar
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.trim import Trimmer
from composer_lsp.config import TabSettings

NUM_PLACES = 400
_SEED = 7
_ROOT = Path(__file__).parent.parent
_SOURCES = ("composer_lsp/**/*.py", "editor-clients/vscode/src/*.ts", "docs/*.md")
_CHARS_PER_TOKEN = 4


async def run() -> None:
    found = [*_timed_places()]
    windows = [window for window, _, _ in found]
    lasts = [last for _, _, last in found]
    tokens = [each for _, times, _ in found for each in times]
    row(f"a keystroke's own work, ms ({NUM_PLACES} places)", "p50", "p90", "most")
    for name, times in (
        ("the prompt's window", windows),
        ("trimming, each token", tokens),
        ("trimming and judging, after the last", lasts),
    ):
        row(name, f"{p50(times):.2f}", f"{p90(times):.2f}", f"{max(times):.2f}")
    grammars = [_grammar_ms(language) for language in ("python", "typescript", "go", "rust", "lua")]
    row("a grammar, when a document is opened", f"{p50(grammars):.0f}", "", f"{max(grammars):.0f}")


def _timed_places() -> Iterator[tuple[float, list[float], float]]:
    """Milliseconds of the window, of each token, and of what is done after the last."""
    draw = random.Random(_SEED)
    paths = sorted(path for pattern in _SOURCES for path in _ROOT.glob(pattern))
    for language in {language_of(path) for path in paths}:
        load_grammar(language)
    for _ in range(NUM_PLACES):
        path = draw.choice(paths)
        text = path.read_text(encoding="utf-8")
        start = draw.randrange(len(text)) if text else 0
        num_chars = TabSettings().max_tokens * _CHARS_PER_TOKEN
        end = text.find("\n", start) if text.find("\n", start) >= 0 else len(text)
        answer = text[start : start + num_chars]
        yield _timed(text[:start] + text[end:], start, answer, language_of(path))


def _timed(
    text: str, offset: int, answer: str, language_id: str
) -> tuple[float, list[float], float]:
    window = PromptWindow()
    started = time.perf_counter()
    window.prompt(
        text, offset, context_tokens=TabSettings().context_tokens, language_id=language_id
    )
    prompted = time.perf_counter()
    trimmer = Trimmer(
        Surroundings.of(text, offset, language_id=language_id, num_indent_spaces=None)
    )
    tokens: list[tuple[str, float]] = []
    times: list[float] = []
    for place in range(0, len(answer), _CHARS_PER_TOKEN):
        tokens.append((answer[place : place + _CHARS_PER_TOKEN], -0.1))
        came = time.perf_counter()
        is_enough = trimmer.feed(tokens[-1][0])
        times.append(1000 * (time.perf_counter() - came))
        if is_enough:
            break
    else:
        is_enough = False
    ended = time.perf_counter()
    judge.score(
        trimmer.finish("stop" if is_enough else "length") or "",
        tokens,
        is_cut=True,
        after=text[offset:],
    )
    return 1000 * (prompted - started), times, 1000 * (time.perf_counter() - ended)


def _grammar_ms(language_id: str) -> float:
    from composer_index.parsing import grammar

    grammar.load.cache_clear()
    started = time.perf_counter()
    load_grammar(language_id)
    return 1000 * (time.perf_counter() - started)
