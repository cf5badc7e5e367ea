"""`composer-lsp model`: list, fetch, find, check and remove models."""

import argparse
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from composer_inference.hardware import read_hardware
from composer_inference.models.catalog import ModelSpec
from composer_inference.models.choose import recommend_model
from composer_inference.models.download import pull_model
from composer_inference.models.errors import ModelError
from composer_inference.models.files import OnBytes
from composer_inference.models.store import ModelStore


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
    }
    try:
        actions[args.action](store, args)
    except ModelError as error:
        if args.json:
            _print_json({"event": "error", "message": str(error)})
        else:
            print(f"composer-lsp model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the next try goes on from here", file=sys.stderr)
        return 130
    return 0


def _list(store: ModelStore, args: argparse.Namespace) -> None:
    installed = {model.name: model for model in store.installed()}
    specs = {spec.name: spec for spec in store.catalog}
    rows = [
        {
            "name": name,
            "installed": name in installed,
            "problem": installed[name].problem if name in installed else None,
            "size_bytes": (installed.get(name) or specs[name]).size_bytes,
            "description": _description(specs.get(name)),
        }
        for name in dict.fromkeys([*specs, *installed])
    ]
    if args.json:
        _print_json(rows)
        return
    for row in rows:
        state = row["problem"] or ("installed" if row["installed"] else "-")
        size = f"{int(str(row['size_bytes'])) / 1e6:,.0f} MB"
        print(f"{row['name']:24}{size:>10}  {state:10}  {row['description']}")


def _pull(store: ModelStore, args: argparse.Namespace) -> None:
    if args.file is not None:
        model = store.register(args.file, args.as_name or args.name)
    else:
        name = args.name or recommend_model(read_hardware()).name
        with progress(f"Fetching {name}", as_json=args.json) as on_bytes:
            model = pull_model(store, name, on_bytes)
    if args.json:
        _print_json({"event": "done", "path": str(model.path)})
    else:
        print(f"{model.name} is at {model.path}")


def _path(store: ModelStore, args: argparse.Namespace) -> None:
    path = str(store.path(args.name))
    print(json.dumps({"path": path}) if args.json else path)


def _verify(store: ModelStore, args: argparse.Namespace) -> None:
    with progress(f"Reading {args.name}", as_json=args.json) as on_bytes:
        model = store.verify(args.name, on_bytes)
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


@contextmanager
def progress(title: str, *, as_json: bool = False) -> Generator[OnBytes]:
    """Shows bytes as they come: a bar on a terminal, JSON lines, or a line every tenth."""
    if as_json:
        yield _every(100, lambda done, total: _print_json(
            {"event": "progress", "done_bytes": done, "total_bytes": total}
        ))  # fmt: skip
    elif not sys.stderr.isatty():
        yield _every(10, lambda done, total: print(
            f"{title}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", file=sys.stderr, flush=True
        ))  # fmt: skip
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _every(num_steps: int, show: OnBytes) -> OnBytes:
    last = -1

    def on_bytes(done: int, total: int) -> None:
        nonlocal last
        step = num_steps * done // max(1, total)
        if step != last:
            last = step
            show(done, total)

    return on_bytes


def _description(spec: ModelSpec | None) -> str:
    return spec.description if spec is not None else "a file of yours"


def _print_json(value: object) -> None:
    print(json.dumps(value), flush=True)
