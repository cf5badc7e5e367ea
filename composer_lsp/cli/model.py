"""`composer-lsp model`: list, fetch, find, check, remove and convert models."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from composer_inference.hardware import read_hardware
from composer_inference.models.catalog import ModelSpec
from composer_inference.models.choose import choose_model, recommend_model
from composer_inference.models.download import OnNotice, pull_model
from composer_inference.models.errors import ModelError
from composer_inference.models.files import OnBytes
from composer_inference.models.installed import InstalledModel
from composer_inference.models.store import ModelStore
from composer_lsp.cli import convert


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "models of the catalogue and on this machine")
    pull = _action(actions, "pull", "fetch a model, or register a GGUF file of your own")
    pull.add_argument("name", nargs="?", help="default: what suits this machine")
    pull.add_argument(
        "--file", type=Path, metavar="PATH", help="register this file; it stays there"
    )
    pull.add_argument("--name", dest="as_name", help="the name to register the file under")
    for name, text in (
        ("path", "where a model's file is"),
        ("verify", "compare a model's digest"),
        ("remove", "delete a model; a registered file is only forgotten"),
    ):
        _action(actions, name, text).add_argument("name")
    convert.add_quantize_arguments(
        _action(actions, "quantize", "write a mixture of experts with its experts in MXFP8")
    )
    convert.add_upcycle_arguments(
        _action(actions, "upcycle", "make a mixture of experts from a dense model")
    )


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def run(args: argparse.Namespace) -> int:
    store = ModelStore()
    actions: dict[str, Callable[[ModelStore, argparse.Namespace], None]] = {
        "list": _list,
        "pull": _pull,
        "path": _path,
        "verify": _verify,
        "remove": _remove,
        "quantize": partial(_convert, convert.quantize),
        "upcycle": partial(_convert, convert.upcycle),
    }
    # The language server ends a download by this signal; pip must not live on without us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        actions[args.action](store, args)
    except ModelError as error:
        if args.json:
            _print_json({"event": "error", "message": str(error)})
        else:
            print(f"composer-lsp model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if args.action == "pull":
            print("stopped; the next try goes on from here", file=sys.stderr)
        return 130
    return 0


def _list(store: ModelStore, args: argparse.Namespace) -> None:
    installed = {model.name: model for model in store.installed()}
    specs = {spec.name: spec for spec in store.catalog}
    usable = [name for name, model in installed.items() if model.problem is None]
    auto = choose_model(read_hardware(), usable).name
    rows = [
        _row(name, specs.get(name), installed.get(name), is_auto=name == auto)
        for name in dict.fromkeys([*specs, *installed])
    ]
    if args.json:
        _print_json(rows)
        return
    for row in rows:
        state = "installed" if row["installed"] else "-"
        mark = "auto" if row["auto"] else ""
        size = f"{row['size_bytes'] / 1e6:,.0f} MB"
        print(f"{row['name']:24}{size:>10}  {state:10}{mark:6}{row['description']}")
        if row["problem"]:
            print(f"{'':24}{row['problem']}")


def _row(
    name: str, spec: ModelSpec | None, model: InstalledModel | None, *, is_auto: bool
) -> dict[str, Any]:
    known = model or spec
    assert known is not None, "a name comes from the catalogue or from an installed model"
    return {
        "name": name,
        "installed": model is not None,
        "problem": model.problem if model is not None else None,
        "auto": is_auto,
        "size_bytes": known.total_bytes,
        "licence": spec.licence if spec is not None else None,
        "description": spec.description if spec is not None else "a file of yours",
    }


def _pull(store: ModelStore, args: argparse.Namespace) -> None:
    if args.file is not None:
        with progress(f"Reading {args.file.name}", as_json=args.json) as report:
            model = store.register(args.file, args.as_name or args.name, report.on_bytes)
    else:
        name = args.name or recommend_model(read_hardware()).name
        with progress(f"Fetching {name}", as_json=args.json) as report:
            model = pull_model(store, name, report.on_bytes, report.on_notice)
    if args.json:
        _print_json({"event": "done", "path": str(model.path)})
    else:
        print(f"{model.name} is at {model.path}")


def _path(store: ModelStore, args: argparse.Namespace) -> None:
    path = str(store.path(args.name))
    print(json.dumps({"path": path}) if args.json else path)


def _verify(store: ModelStore, args: argparse.Namespace) -> None:
    with progress(f"Reading {args.name}", as_json=args.json) as report:
        model = store.verify(args.name, report.on_bytes)
    if args.json:
        _print_json({"event": "done", "path": str(model.path)})
    else:
        print(f"{model.name} is whole")


def _remove(store: ModelStore, args: argparse.Namespace) -> None:
    model = store.remove(args.name)
    if args.json:
        _print_json({"event": "done", "path": str(model.path)})
    else:
        print(f"{model.name} is {'forgotten; its file stays' if model.registered else 'removed'}")


def _convert(
    convert_model: Callable[[ModelStore, argparse.Namespace, OnBytes], None],
    store: ModelStore,
    args: argparse.Namespace,
) -> None:
    with progress(f"Reading {args.source}", as_json=args.json) as report:
        convert_model(store, args, report.on_bytes)
    if args.json:
        _print_json({"event": "done", "path": str(args.target)})
    else:
        print(f"the model is in {args.target}")


@dataclass(frozen=True, slots=True)
class Report:
    on_bytes: OnBytes
    on_notice: OnNotice


@contextmanager
def progress(title: str, *, as_json: bool = False) -> Generator[Report]:
    """Shows bytes as they come: a bar on a terminal, JSON lines, or a line every tenth. Notices go
    to stderr."""
    if as_json:
        yield Report(_every(100, _print_progress), _print_notice)
    elif not sys.stderr.isatty():
        yield Report(_every(10, partial(_print_line, title)), _print_notice)
    else:
        with _bar(title) as report:
            yield report


@contextmanager
def _bar(title: str) -> Generator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield Report(
            on_bytes=lambda done, total: bar.update(task, completed=done, total=total),
            on_notice=partial(console.print, style="dim", markup=False),
        )


def _print_progress(done: int, total: int) -> None:
    _print_json({"event": "progress", "done_bytes": done, "total_bytes": total})


def _print_line(title: str, done: int, total: int) -> None:
    print(f"{title}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", file=sys.stderr, flush=True)


def _print_notice(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _every(num_steps: int, show: OnBytes) -> OnBytes:
    last = -1

    def on_bytes(done: int, total: int) -> None:
        nonlocal last
        step = num_steps * done // max(1, total)
        if step != last:
            last = step
            show(done, total)

    return on_bytes


def _print_json(value: object) -> None:
    print(json.dumps(value), flush=True)
