"""`composer-lsp index`: build, look into, search, clear and judge a workspace's index."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from composer_inference.environment import cache_dir

if TYPE_CHECKING:
    from composer_index.indexing.indexer import Progress
    from composer_index.root import RootIndex

_SHOWN_LINES = 6
_INTERVAL_S = 0.2


class _FailedError(Exception):
    """The command cannot be carried out; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "build", "bring the index up to date with the files")
    _action(
        actions,
        "status",
        "how much is indexed, which files were skipped and why, and where it lies",
    )
    search = _action(actions, "search", "find code by a question or by words")
    search.add_argument("query", nargs="+")
    search.add_argument("--limit", type=int, default=10, help="results (default: 10)")
    search.add_argument("--glob", help="only paths that match, such as 'src/**/*.py'")
    search.add_argument("--language", help="only this LSP language id, such as python")
    search.add_argument(
        "--no-build",
        action="store_true",
        help="search what is indexed, without looking for changes",
    )
    _action(actions, "clear", "forget everything about a folder")
    evaluate = _action(actions, "eval", "judge the search by queries made from a source tree")
    evaluate.add_argument("--queries", type=int, default=500, help="queries (default: 500)")
    evaluate.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the workspace (default: this folder)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def run(args: argparse.Namespace) -> int:
    # Slow to import, and not needed for `--help`.
    from composer_index.store.errors import StoreError
    from composer_index.store.sql import GlobError

    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "build": _build,
        "status": _status,
        "search": _search,
        "clear": _clear,
        "eval": _evaluate,
    }
    try:
        if not args.root.is_dir():
            raise _FailedError(f"{args.root} is no folder")
        actions[args.action](args)
    except (_FailedError, StoreError, GlobError) as error:
        if args.json:
            _print_json({"error": str(error)})
        else:
            print(f"composer-lsp index: {error}", file=sys.stderr)
        return 1
    return 0


def _build(args: argparse.Namespace) -> None:
    index = _opened(args)
    started = time.monotonic()
    index.refresh(_progress_line(args))
    status = index.status()
    if args.json:
        _print_json(asdict(status))
        return
    for notice in index.notices:
        print(notice, file=sys.stderr)
    print(
        f"{status.num_files:,} files in {status.num_chunks:,} pieces, "
        f"{status.disk_bytes / 1e6:,.0f} MB, {time.monotonic() - started:.1f} s"
    )


def _status(args: argparse.Namespace) -> None:
    status = _opened(args).status()
    if args.json:
        _print_json(asdict(status))
        return
    print(f"{status.root}\n  {status.num_files:,} files in {status.num_chunks:,} pieces")
    if status.state == "building":
        print("  not built yet: composer-lsp index build, or open the folder in an editor")
    for reason, count in sorted(status.skipped.items()):
        print(f"  {count:,} not indexed: {reason}")
    print(f"  {status.disk_bytes / 1e6:,.0f} MB in {status.location}")
    if not status.is_writer:
        print("  an editor's window keeps it current")


def _search(args: argparse.Namespace) -> None:
    if args.limit < 1:
        raise _FailedError(f"--limit takes a number of results from 1, not {args.limit}")
    index = _opened(args)
    if not args.no_build and index.become_writer():
        index.refresh(_progress_line(args))
    results = index.search(" ".join(args.query), args.limit, args.glob, args.language)
    if args.json:
        _print_json([asdict(result) for result in results])
        return
    for result in results:
        print(
            f"{_printable(result.path)}:{result.start_line}  {result.symbol}  ({'; '.join(result.why)})"
        )
        for line in result.text.splitlines()[:_SHOWN_LINES]:
            print(f"    {line}")
    if not results:
        print("nothing found", file=sys.stderr)


def _clear(args: argparse.Namespace) -> None:
    index = _opened(args)
    if not index.become_writer():
        raise _FailedError("an editor's window keeps this index current; close it first")
    index.clear()
    if args.json:
        _print_json({"cleared": str(index.location)})
    else:
        print(f"cleared {index.location}")


def _evaluate(args: argparse.Namespace) -> None:
    from composer_index.evaluate.run import evaluate
    from composer_index.evaluate.whole import index_search

    if args.queries < 1:
        raise _FailedError(f"--queries takes a number from 1, not {args.queries}")
    with tempfile.TemporaryDirectory(prefix="composer-eval-") as scratch:
        evaluation = evaluate(
            args.root,
            lambda tree: index_search(tree, Path(scratch)),
            number=args.queries,
            seed=args.seed,
        )
    if not evaluation.functions and not evaluation.commits:
        raise _FailedError(f"{args.root} has no documented functions and no commits to ask about")
    if args.json:
        _print_json(evaluation.as_json())
    else:
        print(evaluation.as_text())


def _opened(args: argparse.Namespace) -> "RootIndex":
    from composer_index.root import RootIndex

    index = RootIndex(args.root, cache_dir=cache_dir(), on_event=_tell)
    index.open()
    return index


def _tell(event: Any) -> None:
    print(event.message, file=sys.stderr)


def _progress_line(args: argparse.Namespace) -> "Callable[[Progress], None]":
    if args.json or not sys.stderr.isatty():
        return lambda progress: None
    last = 0.0

    def show(progress: "Progress") -> None:
        nonlocal last
        if progress.num_left and time.monotonic() - last < _INTERVAL_S:
            return
        last = time.monotonic()
        total = progress.num_done + progress.num_left
        line = f"indexing {progress.num_done:,} of {total:,} files" if progress.num_left else ""
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    return show


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


def _print_json(value: Any) -> None:
    print(json.dumps(value))
