"""Runs searches over a tree's own questions, and says how well each answers."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from composer_index.evaluate.commits import commit_questions, distinct_files
from composer_index.evaluate.metrics import Quality, first_right, quality
from composer_index.evaluate.queries import Question, sample, strip_tree
from composer_index.evaluate.reference import Search

Searches = Mapping[str, Search]
"""By name."""

Build = Callable[[Path], Searches]
"""Indexes a tree, and gives searches over it: called once for each kind of question."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    method: str
    quality: Quality
    query_ms: float
    """Mean CPU and waiting of one question, in milliseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Of one tree. A table is empty where the tree gave no questions of its kind."""

    tree: str
    seed: int
    functions: tuple[Result, ...]
    """First sentence of a function's prose, against the function without it."""
    commits: tuple[Result, ...]
    """Subject of a commit, against the files that it changed: both are of the tree as it is now."""

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def as_text(self) -> str:
        lines = [f"{self.tree}, seed {self.seed}"]
        for title, results in (("functions", self.functions), ("commits", self.commits)):
            if results:
                lines.append(f"{title}, {results[0].quality.num_questions} questions")
                lines.append(f"  {'method':24} {'MRR@10':>7} {'R@10':>6} {'ms':>7}")
            lines += [
                f"  {one.method:24} {one.quality.mrr:7.3f} {one.quality.recall:6.3f}"
                f" {one.query_ms:7.1f}"
                for one in results
            ]
        return "\n".join(lines)


def evaluate(tree: Path, build: Build, *, number: int = 500, seed: int = 7) -> Evaluation:
    """Asks every search the same `number` questions of each kind, chosen by `seed`.

    Raises:
        OSError: a file cannot be read, or there is no room for a copy of the tree.
    """
    with tempfile.TemporaryDirectory(prefix="composer-evaluate-") as scratch:
        stripped = Path(scratch) / "tree"
        stripped.mkdir()
        functions = sample(strip_tree(tree, stripped), number, seed)
        of_functions = _ask(functions, build(stripped)) if functions else ()
    commits = commit_questions(tree, number, seed)
    of_commits = _ask(commits, _by_file(build(tree))) if commits else ()
    return Evaluation(
        tree=tree.resolve().name, seed=seed, functions=of_functions, commits=of_commits
    )


def _ask(questions: Sequence[Question], searches: Searches) -> tuple[Result, ...]:
    results: list[Result] = []
    for method, search in searches.items():
        search(questions[0].text)  # what is loaded on the first question is no part of its time
        start = time.perf_counter()
        ranks = [first_right(question, search(question.text)) for question in questions]
        elapsed_ms = (time.perf_counter() - start) * 1e3
        results.append(
            Result(method=method, quality=quality(ranks), query_ms=elapsed_ms / len(questions))
        )
    return tuple(results)


def _by_file(searches: Searches) -> Searches:
    def of_files(search: Search) -> Search:
        return lambda query: distinct_files(search(query))

    return {method: of_files(search) for method, search in searches.items()}
