"""`make bench-tab`: what Tab completes rightly and what that costs.

    python -m bench.tab [infilling] [--kind …] [--model …] [--num N] [--split tune|eval]
    python -m bench.tab judge       with `--split tune` new weights are printed, too

A model's programs are run, in a sandbox (bubblewrap). Needs the models named, and fetches the problems
once. Every table is printed with the machine.
"""

import argparse
import asyncio
from pathlib import Path
from typing import cast, get_args

from bench.measure import print_machine
from bench.tab import infilling, judging
from bench.tab.problems import DataError, Kind, Problem, Split, read_problems
from bench.tab.programs import SandboxError
from composer_lsp.config import TabSettings

MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
KINDS = cast(tuple[Kind, ...], get_args(Kind))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tab", description=__doc__)
    parser.add_argument("part", choices=("infilling", "judge"), nargs="?", default="infilling")
    parser.add_argument("--kind", nargs="+", choices=KINDS)
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--num", type=int, default=100, help="problems of each kind (default: 100)")
    parser.add_argument("--split", choices=get_args(Split), default="eval")
    parser.add_argument("--data", type=Path, help="a folder with the published files")
    parser.add_argument(
        "--records", type=Path, help="a folder for each problem's answer, JSON lines"
    )
    parser.add_argument("--no-raw", action="store_true", help="do not ask the raw model")
    options = parser.parse_args()
    print_machine()
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    try:
        (_infilling if options.part == "infilling" else _judge)(options)
    except (DataError, SandboxError) as error:
        parser.error(str(error))


def _infilling(options: argparse.Namespace) -> None:
    for model in options.model:
        for kind in options.kind or KINDS:
            path = _record(options, f"{model}-{kind}-{options.split}")
            compared = infilling.compare(
                model, kind, _problems(options, kind), records=path, raw=not options.no_raw
            )
            asyncio.run(compared)


def _judge(options: argparse.Namespace) -> None:
    suggested: list[judging.Suggested] = []
    for model in options.model:
        for kind in options.kind or KINDS[:2]:
            path = _record(options, f"judge-{model}-{kind}-{options.split}")
            if path is not None and path.exists():
                found = judging.read(path)
            else:
                found = asyncio.run(judging.collect(model, kind, _problems(options, kind)))
                if path is not None:
                    judging.write(found, path)
            suggested += found
    if options.split == "tune":
        judging.fit(suggested)
    judging.measure(suggested, TabSettings().min_score)


def _problems(options: argparse.Namespace, kind: Kind) -> list[Problem]:
    return read_problems(kind, folder=options.data, split=options.split, num_problems=options.num)


def _record(options: argparse.Namespace, name: str) -> Path | None:
    return None if options.records is None else options.records / f"{name}.jsonl"


if __name__ == "__main__":
    main()
