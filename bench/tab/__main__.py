"""`make bench-tab`: what Tab completes rightly and what that costs.

    python -m bench.tab [infilling] [--kind …] [--model …] [--num N] [--split tune|eval]
    python -m bench.tab judge       with `--split tune` new weights are printed, too
    python -m bench.tab typing      [--client …] [--file FOLDER PATH] [--chars N] [--seed N]
    python -m bench.tab repository  [--way …] [--package FOLDER] [--num N] [--seed N]

A model's programs are run, in a sandbox (bubblewrap). Needs the models named, and fetches problems and
packages once. Every table is printed with the machine. With `--records`, what was measured before is not
measured again.
"""

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args

from bench.measure import print_machine
from bench.tab import infilling, judging
from bench.tab.problems import DataError, Kind, Problem, Split, read_problems
from bench.tab.programs import SandboxError
from bench.tab.repository import compare as repository
from bench.tab.typing.compare import CLIENTS, File, FirstVersionError, compare, published_files
from composer_lsp.config import TabSettings

MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
KINDS = cast(tuple[Kind, ...], get_args(Kind))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tab", description=__doc__)
    parser.add_argument("part", choices=tuple(_PARTS), nargs="?", default="infilling")
    parser.add_argument("--kind", nargs="+", choices=KINDS)
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument(
        "--num",
        type=int,
        help="problems of each kind (default: 100), or holes of each kind and package (default: 10)",
    )
    parser.add_argument("--split", choices=get_args(Split), default="eval")
    parser.add_argument("--data", type=Path, help="a folder with the published files")
    parser.add_argument("--records", type=Path, help="a folder for what was measured")
    parser.add_argument("--no-raw", action="store_true", help="do not ask the raw model")
    parser.add_argument("--client", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument(
        "--file",
        nargs=2,
        action="append",
        metavar=("FOLDER", "PATH"),
        help="another file to type, in the folder that the window has open",
    )
    parser.add_argument("--way", nargs="+", choices=repository.WAYS, default=repository.WAYS)
    parser.add_argument(
        "--package", type=Path, nargs="+", help="folders of other Python packages to make holes in"
    )
    parser.add_argument("--chars", type=int, default=300, help="typed of each file (default: 300)")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="times as slow a typist, for a slow machine"
    )
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    print_machine()
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    try:
        _PARTS[options.part](options)
    except (DataError, SandboxError, FirstVersionError) as error:
        parser.error(str(error))


def _infilling(options: argparse.Namespace) -> None:
    for model in options.model:
        for kind in options.kind or KINDS:
            problems, records = _problems(options, kind), options.records
            asyncio.run(
                infilling.compare(model, kind, problems, records=records, raw=not options.no_raw)
            )


def _judge(options: argparse.Namespace) -> None:
    suggested: list[judging.Suggested] = []
    for model in options.model:
        for kind in options.kind or KINDS[:2]:
            problems = _problems(options, kind)
            suggested += asyncio.run(
                judging.collect(model, kind, problems, records=options.records)
            )
    if options.split == "tune":
        judging.fit(suggested)
    judging.measure(suggested, TabSettings().min_score)


def _typing(options: argparse.Namespace) -> None:
    given = [File(folder=Path(folder), path=path) for folder, path in options.file or ()]
    compared = compare(
        given or published_files(),
        options.model,
        options.client,
        num_chars=options.chars,
        seed=options.seed,
        pace=options.pace,
        records=options.records,
    )
    asyncio.run(compared)


def _repository(options: argparse.Namespace) -> None:
    compared = repository.compare(
        options.model,
        options.way,
        packages=options.package or repository.published_packages(),
        num_of_each=options.num or 10,
        seed=options.seed,
        records=options.records,
    )
    asyncio.run(compared)


def _problems(options: argparse.Namespace, kind: Kind) -> list[Problem]:
    return read_problems(
        kind, folder=options.data, split=options.split, num_problems=options.num or 100
    )


_PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "infilling": _infilling,
    "judge": _judge,
    "typing": _typing,
    "repository": _repository,
}


if __name__ == "__main__":
    main()
