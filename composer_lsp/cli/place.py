"""`FILE:LINE:COL` on a command line: the cursor's place, and the file as an editor would open it."""

import stat
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.completion.lines import split_lines
from composer_lsp.completion.request import DocumentSnapshot

_MAX_BYTES = 16 << 20
"""Of a file: more than anybody writes by hand."""
_MAX_DIGITS = 9
"""Of a line or a column; Python refuses to read numbers of some thousands."""


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int
    """From 1."""
    column: int | None
    """From 1, in characters; None for the line's end."""


class PlaceError(ValueError):
    """The place cannot be found; the message names it."""


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
    lines = split_lines(text)
    if not 1 <= place.line <= len(lines):
        raise PlaceError(f"{place.path} has {len(lines)} lines, no line {place.line}")
    line = lines[place.line - 1].rstrip("\r\n")
    column = len(line) + 1 if place.column is None else place.column
    if not 1 <= column <= len(line) + 1:
        raise PlaceError(
            f"line {place.line} of {place.path} has {len(line)} characters, no column {column}"
        )
    return sum(map(len, lines[: place.line - 1])) + column - 1


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


def _split_numbers(text: str) -> list[str]:
    """`a:b.py:3:4` as `["a:b.py", "3", "4"]`: a path may hold colons."""
    head, _, last = text.rpartition(":")
    if not head or not last.isdecimal():
        return [text]
    path, _, line = head.rpartition(":")
    return [path, line, last] if path and line.isdecimal() else [head, last]
