"""`composer-lsp complete FILE:LINE:COL`: the ghost text that an editor would show there."""

import argparse
import asyncio
import json
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.completion.prompt import path_end, with_newlines
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.request import CompletionRequest, DocumentSnapshot, Suggestion
from composer_lsp.completion.templates import template_names
from composer_lsp.config import EngineSettings, TabSettings

_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
"""As editors count lines; `str.splitlines` also takes form feeds and more."""

_MAX_BYTES = 16 << 20
"""Of a file: more than anybody writes by hand."""
_MAX_DIGITS = 9
"""Of a line or a column; Python refuses to read numbers of some thousands."""

_NO_SUGGESTION = 1
_FAILED = 2


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int
    """From 1."""
    column: int | None
    """From 1, in characters; None for the line's end."""


class PlaceError(ValueError):
    """The place cannot be found; the message names it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = TabSettings()
    parser.add_argument(
        "place",
        metavar="FILE:LINE[:COL]",
        help="the cursor, counted from 1 in characters; without COL, the line's end",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print text, offsets, timings in ms and numbers of tokens",
    )
    parser.add_argument("--model", default=defaults.model, help="model name (default: auto)")
    parser.add_argument(
        "--url", default="", help="an OpenAI-compatible server in place of the local engine"
    )
    parser.add_argument(
        "--api-key-env", default="", help="environment variable that holds the key for --url"
    )
    parser.add_argument(
        "--fim-template",
        default=defaults.fim_template,
        choices=["auto", *template_names()],
        metavar="NAME",
        help=f"auto (default), {', '.join(template_names())}",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=defaults.max_tokens,
        help=f"longest suggestion, in tokens (default: {defaults.max_tokens})",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="another file whose text goes into the prompt; may be given several times",
    )
    parser.epilog = "Exit status: 0 with a suggestion, 1 without one, 2 when it failed."


def run(args: argparse.Namespace) -> int:
    from composer_inference.endpoint import EndpointError
    from composer_lsp.engine.errors import EngineError

    settings = TabSettings(
        model=args.model,
        url=args.url,
        api_key_env=args.api_key_env,
        fim_template=args.fim_template,
        max_tokens=args.max_tokens,
    )
    try:
        return asyncio.run(_complete(args.place, settings, beside=args.beside, as_json=args.json))
    except (PlaceError, EngineError, EndpointError) as error:
        print(f"composer-lsp complete: {error}", file=sys.stderr)
        return _FAILED


def parse_place(text: str) -> Place:
    """Raises: PlaceError."""
    path, *numbers = _split_numbers(text)
    if not path or not numbers:
        raise PlaceError(f"{text!r} is not like FILE:LINE or FILE:LINE:COL")
    if (longest := max(map(len, numbers))) > _MAX_DIGITS:
        raise PlaceError(f"{path} has no line or column with a number of {longest} digits")
    return Place(Path(path), int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else None)


def offset_of(text: str, place: Place) -> int:
    """The place's offset in the file's text. Raises: PlaceError."""
    lines = _LINE_END.split(text)
    if not 1 <= place.line <= len(lines):
        raise PlaceError(f"{place.path} has {len(lines)} lines, no line {place.line}")
    line = lines[place.line - 1].rstrip("\r\n")
    column = len(line) + 1 if place.column is None else place.column
    if not 1 <= column <= len(line) + 1:
        raise PlaceError(
            f"line {place.line} of {place.path} has {len(line)} characters, no column {column}"
        )
    return sum(map(len, lines[: place.line - 1])) + column - 1


async def _complete(
    place_text: str, settings: TabSettings, *, beside: Sequence[Path], as_json: bool
) -> int:
    from composer_lsp.completion.completer import Completer
    from composer_lsp.completion.context import FixedContext
    from composer_lsp.engine.launcher import Launcher
    from composer_lsp.engine.select import ConfiguredTabEngine

    place = parse_place(place_text)
    document = read_document(place.path)
    text = document.text
    context = _context_of(beside)
    engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings)
    request = CompletionRequest(document=document, offset=offset_of(text, place), trigger="invoked")
    try:
        completer = Completer(engine, lambda: settings, context=FixedContext(context))
        suggestions = await completer.complete(request)
    finally:
        await engine.aclose()
    suggestion = next(iter(suggestions), None)
    if as_json:
        print(_as_json(suggestion, request.offset))
    elif suggestion:
        print(suggestion.text)
    return 0 if suggestion else _NO_SUGGESTION


def _context_of(paths: Sequence[Path]) -> RepositoryContext:
    """Raises: PlaceError."""
    return RepositoryContext(
        snippets=tuple(
            Snippet(
                path=path_end(path.absolute().as_posix()),
                text=with_newlines(read_document(path).text),
            )
            for path in paths
        )
    )


def read_document(path: Path) -> DocumentSnapshot:
    """The file as an editor would open it, with its own line endings.

    Raises: PlaceError, also for a file whose text may reach no prompt.
    """
    from composer_index.ignores import HiddenFiles
    from composer_lsp.completion.filters import why_withheld
    from composer_lsp.completion.languages import language_of

    document = DocumentSnapshot(
        uri=path.absolute().as_uri(),
        version=1,
        text=_read_text(path),
        language_id=language_of(path),
    )
    if (reason := why_withheld(document, HiddenFiles())) is not None:
        raise PlaceError(f"{path} {reason}; it is never put in a prompt")
    return document


def _read_text(path: Path) -> str:
    """Raises: PlaceError."""
    try:
        # Bytes: reading as text would turn the file's line endings into newlines.
        return _read_bytes(path).decode("utf-8")
    except OSError as error:
        raise PlaceError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlaceError(f"{path} is not UTF-8 text") from error


def _read_bytes(path: Path) -> bytes:
    """Raises: PlaceError, OSError."""
    # A pipe keeps whoever opens it waiting, and some devices never end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise PlaceError(f"cannot read {path}: it is not a regular file")
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise PlaceError(f"cannot read {path}: it is larger than {_MAX_BYTES >> 20} MiB")
    return data


def _as_json(suggestion: Suggestion | None, offset: int) -> str:
    return json.dumps(
        {
            "text": suggestion.text if suggestion else None,
            "start": suggestion.start if suggestion else offset,
            "end": suggestion.end if suggestion else offset,
            "timings_ms": {name: round(ms, 1) for name, ms in suggestion.timings.items()}
            if suggestion
            else {},
            "tokens": dict(suggestion.tokens) if suggestion else {},
        },
        ensure_ascii=False,
    )


def _split_numbers(text: str) -> list[str]:
    """`a:b.py:3:4` as `["a:b.py", "3", "4"]`: a path may hold colons."""
    head, _, last = text.rpartition(":")
    if not head or not last.isdecimal():
        return [text]
    path, _, line = head.rpartition(":")
    return [path, line, last] if path and line.isdecimal() else [head, last]
