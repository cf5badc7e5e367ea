"""The judge of suggestions (`composer_lsp.completion.judge`): fitted on one half of the programs, measured on
the other.

Everything the engine suggests at a hole is kept, shown or not, with its features and whether the program's
tests pass with it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from bench.measure import row
from bench.tab.problems import Kind, Problem
from bench.tab.programs import passes
from bench.tab.records import Records
from composer_lsp.completion.judge import Features, features_of, score_of
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.tab_engine import TabEngine
from composer_lsp.completion.trim import Trimmer
from composer_lsp.config import EngineSettings, TabSettings
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.select import ConfiguredTabEngine

_STEPS = 20_000
_RATE = 0.1
_DECAY = 0.02
_LEAST_RECALL = 0.8
"""Of what would pass, that has to be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggested:
    model: str
    kind: Kind
    task_id: str
    text: str
    tokens: Sequence[tuple[str, float]]
    """Of the model's answer, with their log-probabilities."""
    is_cut: bool
    after: str
    """The text behind the hole."""
    has_passed: bool

    @property
    def features(self) -> Features:
        found = features_of(self.text, self.tokens, is_cut=self.is_cut, after=self.after)
        assert found is not None, "only what has tokens is kept"
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    suggested: Suggested | None
    """None: nothing was left."""


async def collect(
    model: str, kind: Kind, problems: Sequence[Problem], *, records: Path | None
) -> list[Suggested]:
    """What the model suggests for the problems, but for those where nothing is left after trimming.
    `records`: a folder, from which problems that were answered before are taken."""
    found = Records(Answer, records and records / f"judge-{model}-{kind}.jsonl")
    async with _engine(model) as engine:
        for problem in problems:
            if problem.task_id not in found:
                suggested = await _suggest(engine, model, kind, problem)
                found.add(problem.task_id, Answer(suggested=suggested))
    answers = found.of(each.task_id for each in problems)
    return [each.suggested for each in answers if each.suggested is not None]


def fit(suggested: Sequence[Suggested]) -> None:
    """Prints weights for the judge."""
    names = [each.name for each in fields(Features)]
    inputs = np.array([[getattr(each.features, name) for name in names] for each in suggested])
    passed = np.array([each.has_passed for each in suggested], dtype=float)
    mean, spread = inputs.mean(0), inputs.std(0) + 1e-9
    scaled = np.column_stack([(inputs - mean) / spread, np.ones(len(inputs))])
    weights = np.zeros(scaled.shape[1])
    for _ in range(_STEPS):
        errors = 1 / (1 + np.exp(-scaled @ weights)) - passed
        decay = _DECAY * np.append(weights[:-1], 0)
        weights -= _RATE * (scaled.T @ errors / len(passed) + decay)
    plain = weights[:-1] / spread
    print(f"bias {weights[-1] - plain @ mean:.3f}")
    for name, weight in zip(names, plain, strict=True):
        print(f"{name} {weight:.3f}")


def measure(suggested: Sequence[Suggested], threshold: float) -> None:
    """Prints how well the judge's score tells what passes from what does not, pooled and each alone."""
    row("judge", "suggested", "pass", "AUROC", "shown's pass", "of passing")
    row("all", *_measured(suggested, threshold))
    for model in sorted({each.model for each in suggested}):
        for kind in sorted({each.kind for each in suggested}):
            of = [each for each in suggested if (each.model, each.kind) == (model, kind)]
            row(f"{model}, {kind}", *_measured(of, threshold))


def _measured(suggested: Sequence[Suggested], threshold: float) -> list[str]:
    scores = np.array([score_of(each.features) for each in suggested])
    passed = np.array([each.has_passed for each in suggested])
    if passed.all() or not passed.any():
        return [str(len(suggested)), f"{passed.mean():.3f}", "-", "-", "-"]
    better = scores[passed][:, None] - scores[~passed][None, :]
    shown = scores >= threshold
    precision = passed[shown].mean() if shown.any() else 0.0
    return [
        str(len(suggested)),
        f"{passed.mean():.3f}",
        f"{(better > 0).mean() + (better == 0).mean() / 2:.3f}",
        f"{precision:.3f}",
        f"{shown[passed].mean():.3f}",
    ]


@asynccontextmanager
async def _engine(model: str) -> AsyncGenerator[ConfiguredTabEngine]:
    """The user's own, as `composer-lsp complete` asks it."""
    settings = TabSettings(model=model)
    engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings)
    try:
        yield engine
    finally:
        await engine.aclose()


async def _suggest(engine: TabEngine, model: str, kind: Kind, problem: Problem) -> Suggested | None:
    settings = TabSettings()
    text, offset = problem.document, len(problem.before)
    around = Surroundings.of(text, offset, language_id="python", num_indent_spaces=None)
    trimmer = Trimmer(around)
    tokens: list[tuple[str, float]] = []
    reason = None
    chunks = engine.complete(
        PromptWindow().prompt(text, offset, context_tokens=settings.context_tokens, path="a.py"),
        max_tokens=settings.max_tokens,
        stop=trimmer.stop,
        invoked=False,
    )
    async with aclosing(chunks):
        async for chunk in chunks:
            tokens += chunk.tokens
            reason = chunk.finish_reason
            if trimmer.feed(chunk.text):
                break
    kept = trimmer.finish(reason or "stop")
    if not kept or not tokens:
        return None
    ending = "\n" if problem.is_whole_lines else ""
    program = f"{problem.before}{kept}{ending}{problem.after}\n{problem.check}"
    return Suggested(
        model=model,
        kind=kind,
        task_id=problem.task_id,
        text=kept,
        tokens=tokens,
        is_cut=reason is None,
        after=problem.after,
        has_passed=passes(program),
    )
