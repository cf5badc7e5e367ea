"""`make agent-demo`: what a small model does with four requests on a real package, and what it does
not: `python -m bench.agent_demo [--model NAME] [--url URL] [TASK...]`.

The package is toolz 1.0.0, as its source distribution has it, fresh for each request. Every run goes
by `composer-lsp` itself, with `--yes` and one rule that lets its tests run. What counts is judged by
running code, not by what the model says of itself. The transcripts and a table go to `--out`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpora import source_distribution
from composer_lsp.agent.citations import citations

PACKAGE = ("toolz", "1.0.0")
TIMEOUT_S = 1800
TESTS = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ALLOWED = ("python -m pytest *", "pytest *")


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    name: str
    mode: str
    request: str
    prepare: Callable[[Path], None] = lambda tree: None
    judge: Callable[[Path, Mapping[str, Any]], str | None]
    """Why the run did not do what was asked; None: it did. Gets the tree and the outcome."""


def _judge_question(tree: Path, outcome: Mapping[str, Any]) -> str | None:
    text = outcome["text"]
    if "groupby" not in text:
        return "the answer does not name groupby"
    cited = [each.lines for each in citations(text) if each.path == "toolz/itertoolz.py"]
    if not cited:
        return "the answer cites no line of toolz/itertoolz.py"
    lines = (tree / "toolz/itertoolz.py").read_text().splitlines()
    first = next(n for n, line in enumerate(lines, 1) if line.startswith("def groupby"))
    last = next(n for n, line in enumerate(lines[first:], first) if line.startswith("def "))
    if not any(first <= line < last for lines in cited for line, _ in lines):
        return "no citation is of groupby's own lines"
    return "a claim does not hold" if outcome["problems"] else None


def _judge_rename(tree: Path, outcome: Mapping[str, Any]) -> str | None:
    left = [
        str(path.relative_to(tree))
        for path in sorted(tree.rglob("*.py"))
        if re.search(r"\bcountby\b", path.read_text())
    ]
    if left:
        return f"countby is still in {', '.join(left)}"
    return _why_tests_fail(tree, "toolz")


def _break_valfilter(tree: Path) -> None:
    path = tree / "toolz/dicttoolz.py"
    text = path.read_text()
    assert text.count("        if predicate(v):\n") == 1
    path.write_text(text.replace("        if predicate(v):\n", "        if predicate(k):\n"))


def _judge_fix(tree: Path, outcome: Mapping[str, Any]) -> str | None:
    if "toolz/tests" in _git(tree, "status", "--short"):
        return "it changed the tests"
    return _why_tests_fail(tree, "toolz")


def _drop_tests_of_recipes(tree: Path) -> None:
    (tree / "toolz/tests/test_recipes.py").unlink()


def _judge_test(tree: Path, outcome: Mapping[str, Any]) -> str | None:
    """New tests pass, and fail for a `partitionby` that is wrong."""
    changed = [line.split()[-1] for line in _git(tree, "status", "--short").splitlines()]
    tests = [path for path in changed if Path(path).name.startswith("test_")]
    if not tests:
        return "it wrote no file of tests"
    if why := _why_tests_fail(tree, *tests):
        return why
    path = tree / "toolz/recipes.py"
    path.write_text(path.read_text().replace("map(tuple, pluck(1", "map(tuple, pluck(0"))
    if _why_tests_fail(tree, *tests) is None:
        return "its tests pass with a broken partitionby"
    return None


TASKS = (
    Task(
        name="question",
        mode="ask",
        request="Which function groups a collection by a key function?",
        judge=_judge_question,
    ),
    Task(
        name="rename",
        mode="edit",
        request="Rename the function countby to count_by in all Python files, docstrings too.",
        judge=_judge_rename,
    ),
    Task(
        name="fix",
        mode="fix",
        request="The test test_valfilter in toolz/tests/test_dicttoolz.py fails. Fix the code.",
        prepare=_break_valfilter,
        judge=_judge_fix,
    ),
    Task(
        name="test",
        mode="test",
        request="Write toolz/tests/test_recipes.py with a test of partitionby.",
        prepare=_drop_tests_of_recipes,
        judge=_judge_test,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.agent_demo", description=__doc__)
    parser.add_argument("tasks", nargs="*", choices=[*(task.name for task in TASKS), []])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--url", default="", help="an OpenAI-compatible server")
    parser.add_argument("--out", type=Path, default=Path("build/agent-demo"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [
        "| request | did it | time | what the run said |",
        "|---|---|---|---|",
    ]
    for task in TASKS:
        if not args.tasks or task.name in args.tasks:
            rows.append(_row(task, args))
            print(rows[-1], flush=True)
    (args.out / "README.md").write_text("\n".join(rows) + "\n")


def _row(task: Task, args: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / PACKAGE[0]
        shutil.copytree(source_distribution(*PACKAGE), tree)
        task.prepare(tree)
        for command in (["init", "-q"], ["add", "-A"], [*_AUTHOR, "commit", "-qm", "toolz"]):
            _git(tree, *command)
        began = time.monotonic()
        outcome = _run(task, tree, args)
        took_s = time.monotonic() - began
        if outcome.get("transcript"):
            export = ["transcript", "export", outcome["transcript"]]
            target = args.out / f"{task.name}.md"
            target.unlink(missing_ok=True)
            subprocess.run([*_COMPOSER, *export, str(target)], check=True)
        why = outcome.get("error") or task.judge(tree, outcome)
    said = " ".join(outcome["text"].split()).replace("|", "\\|")
    verdict = f"no: {why}" if why else "yes"
    return (
        f"| [{task.name}]({task.name}.md): {task.request} | {verdict} | {took_s:.0f} s | {said} |"
    )


def _run(task: Task, tree: Path, args: argparse.Namespace) -> dict[str, Any]:
    """What `--json` printed of the outcome."""
    command = [*_COMPOSER, task.mode, task.request, "--root", str(tree), "--json", "--yes"]
    command += ["--model", args.model]
    command += ["--url", args.url] if args.url else []
    for rule in ALLOWED:
        command += ["--allow", rule]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    events: Sequence[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found: dict[str, Any] = {"text": "", "problems": []}
    for event in events:
        if event["kind"] == "outcome":
            found |= event
        elif event["kind"] == "error":
            found["error"] = event["text"]
    return found


_AUTHOR = ("-c", "user.name=Composer", "-c", "user.email=composer@localhost")
_COMPOSER = (sys.executable, "-P", "-m", "composer_lsp")


def _git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(tree), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def _why_tests_fail(tree: Path, *paths: str) -> str | None:
    done = subprocess.run([*TESTS, *paths], cwd=tree, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"tests fail: {done.stdout.strip().splitlines()[-1]}"


if __name__ == "__main__":
    main()
