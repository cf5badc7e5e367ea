"""pass@1 of HumanEval infilling: through the real server as an editor uses it, and by the raw model.

The raw model gets the family's prompt in the order prefix, suffix, middle, decodes 64 tokens greedily and
stops at its end tokens; what it says is inserted as it is, and also up to its first line's end. Both ask the same engine.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.engines import real_engine
from bench.measure import p50, p90, row
from bench.tab.problems import Kind, Problem
from bench.tab.programs import passes
from bench.tab.records import Records
from bench.tab.resting import prepare, suggested
from composer_lsp.completion.templates import find_template
from tests.support.lsp import Drawn, LspClient, apply_item, start_server

_RAW_TOKENS = 64
_RAW_PATTERN = "<|fim_prefix|>{}<|fim_suffix|>{}<|fim_middle|>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One problem through the server."""

    task_id: str
    text: str
    """Empty: nothing was shown."""
    solution: str
    has_passed: bool
    ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Raw:
    """One problem by the raw model."""

    task_id: str
    text: str
    has_passed: bool
    first_line_has_passed: bool


async def compare(
    model: str, kind: Kind, problems: Sequence[Problem], *, records: Path | None, raw: bool
) -> None:
    """Prints pass@1. `records`: a folder, from which problems that were answered before are taken.
    `raw`: whether the raw model is asked too."""
    name = f"{model}-{kind}"
    shown = Records(Shown, records and records / f"infilling-{name}.jsonl")
    raws = Records(Raw, records and records / f"infilling-{name}-raw.jsonl")
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with (
            real_engine(Path(folder), model) as engine,
            _server(Path(folder), model) as client,
        ):
            for number, problem in enumerate(problems):
                if problem.task_id not in shown:
                    shown.add(problem.task_id, await _through_server(client, problem, number))
                if raw and problem.task_id not in raws:
                    raws.add(problem.task_id, await _raw(engine, model, problem))
    asked = [each.task_id for each in problems]
    _print(f"{model}, {kind}", shown.of(asked), raws.of(asked) if raw else [])


def _print(name: str, shown: Sequence[Shown], raws: Sequence[Raw]) -> None:
    ms = [each.ms for each in shown]
    row(f"{name}, {len(shown)} problems", "pass@1", "shown", "p50 ms", "p90 ms")
    row(
        "  through the server",
        f"{_share([each.has_passed for each in shown]):.3f}",
        f"{_share([bool(each.text) for each in shown]):.2f}",
        f"{p50(ms):.0f}",
        f"{p90(ms):.0f}",
    )
    if raws:
        passed = [each.has_passed for each in raws]
        row("  the raw model", f"{_share(passed):.3f}")
        passed = [each.first_line_has_passed for each in raws]
        row("  the raw model, its first line", f"{_share(passed):.3f}")


def _share(which: Sequence[bool]) -> float:
    return sum(which) / len(which)


@asynccontextmanager
async def _server(folder: Path, model: str) -> AsyncGenerator[LspClient]:
    env = {"COMPOSER_DATA_DIR": os.environ.get("COMPOSER_DATA_DIR", "")}  # The user's models.
    async with start_server(folder, env=env) as client:
        await client.initialize(
            initializationOptions={"tab": {"debounceMs": 0, "model": model, "minScore": 0}}
        )
        yield client


async def _through_server(client: LspClient, problem: Problem, number: int) -> Shown:
    uri = f"untitled:problem_{number}.py"
    document = problem.document
    client.open(uri, document)
    position = Drawn(document, len(problem.before)).position()
    # As editors do where the cursor rests; else a long prompt is asked for in short.
    await prepare(client, uri, position)
    found = await suggested(client, uri, position)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    filled = apply_item(document, found.items[0]) if found.items else document
    has_passed = await asyncio.to_thread(passes, f"{filled}\n{problem.check}")
    return Shown(
        task_id=problem.task_id,
        text=found.items[0]["insertText"] if found.items else "",
        solution=problem.solution,
        has_passed=has_passed,
        ms=found.ms,
    )


async def _raw(engine: httpx.AsyncClient, model: str, problem: Problem) -> Raw:
    body = {
        "model": model,
        "prompt": _RAW_PATTERN.format(problem.before, problem.after),
        "max_tokens": _RAW_TOKENS,
        "temperature": 0,
        "stop": find_template("auto", model).sentinels[:4],
    }
    answer = await engine.post("/v1/completions", json=body)
    answer.raise_for_status()
    said = answer.json()["choices"][0]["text"]
    line = said.lstrip("\n").partition("\n")[0]
    ending = "\n" if problem.is_whole_lines else ""
    programs = (_program(problem, said), _program(problem, line + ending))
    has_passed, first_line_has_passed = [await asyncio.to_thread(passes, of) for of in programs]
    return Raw(
        task_id=problem.task_id,
        text=said,
        has_passed=has_passed,
        first_line_has_passed=first_line_has_passed,
    )


def _program(problem: Problem, middle: str) -> str:
    return f"{problem.before}{middle}{problem.after}\n{problem.check}"
