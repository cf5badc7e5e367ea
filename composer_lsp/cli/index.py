"""`composer-lsp index`: build, look into, search, clear and judge a workspace's index."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from composer_index.printable import printable
from composer_inference.environment import EnvironmentVariableError, cache_dir
from composer_lsp.cli.ago import ago
from composer_lsp.cli.index_models import add_embedder, add_reranker, models_of
from composer_lsp.index.models import ModelsError

if TYPE_CHECKING:
    from composer_index.glance import Glance
    from composer_index.indexing.indexer import Progress
    from composer_index.root import RootIndex

_SHOWN_LINES = 6
_INTERVAL_S = 0.2
_FILL_INTERVAL_S = 10.0
_MANY_FILES = 50
"""Fewer are indexed before anybody wonders."""
_WRITER = "another process keeps this index current: an editor's window, or a build"
_REASONS = {
    "secret": "secrets, by their names",
    "composerignore": "hidden by .composerignore",
    "huge": "of more than 1 MB",
    "deadly": "their parser crashed twice",
    "link": "links to folders, or to nothing",
    "outside": "links that lead out of the folder",
    "special": "pipes, sockets or devices",
}
"""In words, where the reason's name is none."""
_EXIT_STATUS = (
    "Exit status: 0 when it was done, even if nothing was found; 1 when it cannot be done; 2 for wrong "
    "arguments, variables or folders; 130 when it was interrupted. With --json an error, unless in "
    'the arguments, is an object {"error": MESSAGE} on standard output.'
)


class _FailedError(Exception):
    """The command cannot be carried out; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser.epilog = _EXIT_STATUS
    build = _action(actions, "build", "bring the index up to date with the files")
    add_embedder(build)
    _action(
        actions,
        "status",
        "how much is indexed, which files were skipped and why, and where it lies",
    )
    search = _action(actions, "search", "find code by a question or by words")
    search.add_argument("query", nargs="+")
    search.add_argument("--limit", type=int, default=10, help="results (default: 10)")
    search.add_argument(
        "--glob",
        help="only paths that match, in git-ignore syntax or with {a,b}, such as 'src/**/*.py'",
    )
    search.add_argument("--language", help="only this LSP language id, such as python")
    search.add_argument(
        "--no-build",
        action="store_true",
        help="search what is indexed, without looking for changes",
    )
    add_embedder(search)
    add_reranker(search)
    _action(actions, "clear", "forget everything about a folder")
    evaluate = _action(actions, "eval", "judge the search by queries made from a source tree")
    evaluate.add_argument("--queries", type=int, default=500, help="queries (default: 500)")
    evaluate.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    add_embedder(evaluate)
    add_reranker(evaluate)


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text, epilog=_EXIT_STATUS
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the workspace (default: this folder)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def run(args: argparse.Namespace) -> int:
    # Slow to import, and not needed for `--help`.
    from composer_index.embedding.server import ModelServerError
    from composer_index.search.language_filter import LanguageError
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
    except (
        _FailedError,
        ModelsError,
        ModelServerError,
        StoreError,
        GlobError,
        LanguageError,
    ) as error:
        return _failed(args, str(error), 1)
    except BrokenPipeError:
        raise
    except (OSError, EnvironmentVariableError) as error:
        return _failed(args, str(error), 2)
    except KeyboardInterrupt:
        stays = "; what is indexed so far stays" if args.action in ("build", "search") else ""
        return _failed(args, f"interrupted{stays}", 130)
    return 0


def _failed(args: argparse.Namespace, message: str, exit_code: int) -> int:
    if args.json:
        _print_json({"error": message})
    else:
        print(f"composer-lsp index: {printable(message)}", file=sys.stderr)
    return exit_code


def _build(args: argparse.Namespace) -> None:
    started = time.monotonic()
    index = _opened(args)
    if not index.become_writer():
        raise _FailedError(f"{_WRITER}, so there is nothing to build")
    embedder, _ = models_of(args)
    _refresh(index, args)
    if embedder is not None:
        index.use_models(embedder, None)
        _fill(index, args)
    status = index.status()
    if args.json:
        _print_json(asdict(status))
        return
    print(
        f"{status.num_files:,} files in {status.num_chunks:,} pieces, "
        f"{status.disk_bytes / 1e6:,.0f} MB, {time.monotonic() - started:.1f} s"
    )


def _status(args: argparse.Namespace) -> None:
    from composer_index.glance import glance

    seen = glance(args.root, cache_dir())
    if args.json:
        _print_json(asdict(seen))
        return
    print(printable(seen.root))
    for line in _status_lines(seen):
        print(f"  {printable(line)}")


def _status_lines(seen: "Glance") -> Iterator[str]:
    if seen.state in ("unbuilt", "outdated"):
        why = "not built yet" if seen.state == "unbuilt" else "broken, or of another version"
        yield f"{why}: composer-lsp index build, or open the folder in an editor"
    else:
        yield f"{seen.num_files:,} files in {seen.num_chunks:,} pieces"
    if seen.num_left:
        yield f"{seen.num_left:,} files were still to be indexed when it was looked at last"
    if seen.num_unembedded:
        yield f"{seen.num_unembedded:,} files wait for vectors by {seen.model}"
    if seen.embedder:
        yield f"found by meaning with {seen.embedder}"
    for reason, count in sorted(seen.skipped.items()):
        yield f"{count:,} not indexed: {_REASONS.get(reason, reason)}"
    if seen.changed_at is not None:
        yield f"{seen.disk_bytes / 1e6:,.0f} MB, changed {ago(time.time() - seen.changed_at)}"
    yield f"in {seen.location}"
    if seen.has_writer:
        yield _WRITER


def _search(args: argparse.Namespace) -> None:
    from composer_index.search.language_filter import check_language
    from composer_index.store.sql import glob_pattern
    from composer_index.words import split_words

    query = " ".join(args.query)
    if not split_words(query):
        raise _FailedError(f"{query!a} has no words to look for")
    if args.limit < 1:
        raise _FailedError(f"--limit takes a number of results from 1, not {args.limit}")
    if args.language:
        check_language(args.language)
    if args.glob:
        glob_pattern(args.glob)
    index = _opened(args)
    if not args.no_build and index.become_writer():
        _refresh(index, args)
    elif index.state == "building":
        _say(args, "the index is not complete; text is searched beside it")
    embedder, reranker = models_of(args)
    index.use_models(embedder, reranker)
    if embedder is not None and index.status().embedder != embedder.name:
        model = f"composer-lsp index build --embedder {args.embedder}"
        _say(
            args, f"{args.embedder} has no vectors yet, so the table answers; make them by: {model}"
        )
    results = index.search(query, args.limit, args.glob, args.language)
    if args.json:
        _print_json([asdict(result) for result in results])
        return
    for result in results:
        why = "; ".join(result.why)
        print(printable(f"{result.path}:{result.start_line}  {result.symbol}  ({why})"))
        for line in result.text.splitlines()[:_SHOWN_LINES]:
            print(f"    {printable(line)}")
    if not results:
        print("nothing found", file=sys.stderr)


def _clear(args: argparse.Namespace) -> None:
    index = _opened(args)
    if not index.become_writer():
        raise _FailedError(f"{_WRITER}; close it first")
    index.clear()
    if args.json:
        _print_json({"cleared": str(index.location)})
    else:
        print(f"cleared {printable(str(index.location))}")


def _evaluate(args: argparse.Namespace) -> None:
    from composer_index.evaluate.run import evaluate
    from composer_index.evaluate.whole import index_search

    if args.queries < 1:
        raise _FailedError(f"--queries takes a number from 1, not {args.queries}")
    embedder, reranker = models_of(args)

    def prepare(index: "RootIndex") -> None:
        index.use_models(embedder, reranker)
        if embedder is not None:
            _fill(index, args)

    with tempfile.TemporaryDirectory(prefix="composer-eval-") as scratch:
        evaluation = evaluate(
            args.root,
            lambda tree: index_search(tree, Path(scratch), prepare),
            number=args.queries,
            seed=args.seed,
        )
    if not evaluation.functions and not evaluation.commits:
        raise _FailedError(f"{args.root} has no documented functions and no commits to ask about")
    if args.json:
        _print_json(evaluation.as_json())
    else:
        for line in evaluation.as_text().split("\n"):
            print(printable(line))


def _opened(args: argparse.Namespace) -> "RootIndex":
    from composer_index.root import RootIndex

    index = RootIndex(args.root, cache_dir=cache_dir(), on_event=_tell)
    index.open()
    return index


def _tell(event: Any) -> None:
    print(printable(event.message), file=sys.stderr)


def _refresh(index: "RootIndex", args: argparse.Namespace) -> None:
    """Bring it up to date, and say how far it is."""
    is_line = sys.stderr.isatty() and not args.json
    last = 0.0
    is_told = False

    def show(progress: "Progress") -> None:
        nonlocal last, is_told
        if is_line and time.monotonic() - last > _INTERVAL_S:
            last = time.monotonic()
            line = f"{progress.num_done:,} files indexed, {progress.num_left:,} left"
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif not is_line and not is_told and progress.num_left >= _MANY_FILES:
            is_told = True
            _say(args, f"indexing {progress.num_left:,} files")

    try:
        index.refresh(show)
    finally:
        if is_line:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    for notice in index.notices:
        _say(args, notice)


def _fill(index: "RootIndex", args: argparse.Namespace) -> None:
    """Have the embedder's vectors made, and say how far it is."""
    last = time.monotonic()

    def show(num_left: int) -> None:
        nonlocal last
        if time.monotonic() - last > _FILL_INTERVAL_S:
            last = time.monotonic()
            _say(args, f"{num_left:,} files without vectors left")

    index.fill(show)


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.json:
        print(printable(text), file=sys.stderr)


def _print_json(value: Any) -> None:
    print(json.dumps(value))
