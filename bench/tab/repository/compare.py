"""Fills the same holes by the server with and without retrieval, and by llama.cpp's `/infill`, which
knows the file alone.

The server has the package indexed without any function that a hole is in, and the file open with the
hole. It is told that the user rests there (`composer.prepare`), which has the prompt computed, and asked when
that is done: so the answer's time is that of a warm prompt, and what the preparing took is what a change
of place costs. A prompt's budget for other files' text is measured by the server: a busy machine
gets less of it.
"""

import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from bench.corpora import source_distribution
from bench.engines import peer_server, real_engine
from bench.measure import p50, p90, row
from bench.tab.records import Records
from bench.tab.repository.holes import KINDS, Hole, draw_holes, without_functions
from bench.tab.repository.similarity import edit_similarity
from bench.tab.resting import prepare, suggested
from bench.tab.typing.server_client import indexed, num_computed, user_models
from composer_inference.hardware import read_hardware
from tests.support.lsp import Drawn, LspClient, apply_item, start_server

WITH, WITHOUT, RAW = "with retrieval", "without", "llama.cpp alone"
WAYS = (WITH, WITHOUT, RAW)

_PACKAGES = (
    ("structlog", "25.1.0", "src/structlog"),
    ("marshmallow", "4.0.0", "src/marshmallow"),
    ("tinydb", "4.8.2", "tinydb"),
)
_RAW_TOKENS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    way: str
    kind: str
    answer: str
    solution: str
    ms: float
    """Of the answer, with the prompt computed before."""
    prepare_ms: float
    prepare_tokens: int
    """Computed before the answer; 0 for a way that computes nothing ahead."""

    @property
    def is_exact(self) -> bool:
        return self.answer.strip() == self.solution.strip()

    @property
    def similarity(self) -> float:
        return edit_similarity(self.answer.strip(), self.solution.strip())


class Filler(Protocol):
    async def fill(self, path: str, before: str, after: str) -> "Answer": ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    text: str
    ms: float
    prepare_ms: float = 0.0
    prepare_tokens: int = 0


async def compare(
    models: Sequence[str],
    ways: Sequence[str],
    *,
    packages: Sequence[Path],
    num_of_each: int,
    seed: int,
    records: Path | None,
) -> None:
    """Prints a table a model. `num_of_each`: holes of each kind and package."""
    drawn = {
        package: draw_holes(package, num_of_each=num_of_each, seed=seed) for package in packages
    }
    for model in models:
        known = Records(Filled, records and records / f"repository-{model}.jsonl")
        keys: list[str] = []
        for package, holes in drawn.items():
            for way in ways:
                by_key = {f"{way}-{package.name}-{hole.key}": hole for hole in holes}
                left = {key: hole for key, hole in by_key.items() if key not in known}
                if left:
                    async with _filler(way, model, package, holes) as filler:
                        for key, hole in left.items():
                            known.add(key, await _filled(filler, way, package, hole))
                keys += by_key
        print_report(model, known.of(keys))


def published_packages() -> list[Path]:
    """Of source distributions, which pip fetches once."""
    return [source_distribution(name, version) / folder for name, version, folder in _PACKAGES]


def print_report(model: str, filled: Sequence[Filled]) -> None:
    names = ("exact", "similarity", "p50 ms", "p90 ms", "ahead ms", "ahead tokens")
    row(model, "holes", *names)
    for way in dict.fromkeys(each.way for each in filled):
        of_way = [each for each in filled if each.way == way]
        ms = [each.ms for each in of_way]
        row(
            f"  {way}",
            *_quality(of_way),
            f"{p50(ms):.0f}",
            f"{p90(ms):.0f}" if len(ms) > 1 else "-",
            f"{p50([each.prepare_ms for each in of_way]):.0f}",
            f"{p50([each.prepare_tokens for each in of_way]):.0f}",
        )
        for kind in KINDS:
            if of_kind := [each for each in of_way if each.kind == kind]:
                row(f"    {kind}", *_quality(of_kind))


def _quality(filled: Sequence[Filled]) -> Iterable[str]:
    yield str(len(filled))
    yield f"{sum(each.is_exact for each in filled) / len(filled):.3f}"
    yield f"{100 * sum(each.similarity for each in filled) / len(filled):.1f}"


async def _filled(filler: Filler, way: str, package: Path, hole: Hole) -> Filled:
    text = (package / hole.path).read_text("utf-8")
    answer = await filler.fill(hole.path, text[: hole.start], text[hole.end :])
    return Filled(
        way=way,
        kind=hole.kind,
        answer=answer.text,
        solution=text[hole.start : hole.end],
        ms=answer.ms,
        prepare_ms=answer.prepare_ms,
        prepare_tokens=answer.prepare_tokens,
    )


@asynccontextmanager
async def _filler(
    way: str, model: str, package: Path, holes: Sequence[Hole]
) -> AsyncGenerator[Filler]:
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        scratch = Path(name)
        if way == RAW:
            threads = read_hardware().num_usable_cores
            async with peer_server(scratch, threads, model) as peer:
                yield _RawFiller(peer)
            return
        tree = copy_without(package, holes, scratch / package.name)
        async with (
            real_engine(scratch, model) as engine,
            start_server(scratch, env=user_models()) as lsp,
        ):
            tab = {"model": model, "debounceMs": 0, "minScore": 0, "retrieval": way == WITH}
            await lsp.initialize(
                rootUri=tree.as_uri(),
                workspaceFolders=[{"uri": tree.as_uri(), "name": tree.name}],
                initializationOptions={"tab": tab},
            )
            await indexed(lsp)
            yield _ServerFiller(lsp, engine, tree)


def copy_without(package: Path, holes: Sequence[Hole], target: Path) -> Path:
    """A copy of the package without the functions around the holes."""
    shutil.copytree(package, target)
    for path in {hole.path for hole in holes}:
        text = (package / path).read_text("utf-8")
        rest = without_functions(text, [hole for hole in holes if hole.path == path])
        (target / path).write_text(rest, "utf-8")
    return target


@dataclass(frozen=True, slots=True)
class _ServerFiller:
    lsp: LspClient
    engine: httpx.AsyncClient
    tree: Path

    async def fill(self, path: str, before: str, after: str) -> Answer:
        uri, document = (self.tree / path).as_uri(), before + after
        self.lsp.open(uri, document)
        position = Drawn(document, len(before)).position()
        computed = await num_computed(self.engine)
        prepare_ms = await prepare(self.lsp, uri, position)
        prepared = await num_computed(self.engine)
        found = await suggested(self.lsp, uri, position)
        self.lsp.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        return Answer(
            text=inserted(document, found.items[0], before, after) if found.items else "",
            ms=found.ms,
            prepare_ms=prepare_ms,
            prepare_tokens=prepared.prefill - computed.prefill,
        )


@dataclass(frozen=True, slots=True)
class _RawFiller:
    peer: httpx.AsyncClient

    async def fill(self, path: str, before: str, after: str) -> Answer:
        body = {
            "input_prefix": before,
            "input_suffix": after,
            "n_predict": _RAW_TOKENS,
            "temperature": 0,
            "cache_prompt": True,
            "stream": False,
        }
        # Once for the prompt alone, so that its time compares with a warm one's.
        await self._asked(body | {"n_predict": 0})
        started = time.perf_counter()
        text = await self._asked(body)
        return Answer(text=text, ms=1000 * (time.perf_counter() - started))

    async def _asked(self, body: dict[str, Any]) -> str:
        response = await self.peer.post("/infill", json=body)
        response.raise_for_status()
        return response.json()["content"]


def inserted(document: str, item: dict[str, Any], before: str, after: str) -> str:
    """What an item puts in the hole, whatever of the text around it is in its range."""
    text = apply_item(document, item)
    num_before = _num_common(before, text)
    num_after = min(_num_common(after[::-1], text[::-1]), len(text) - num_before)
    return text[num_before : len(text) - num_after]


def _num_common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
