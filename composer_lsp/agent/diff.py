"""Changes as a unified diff."""

import io
from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff

from composer_index.printable import printable
from composer_lsp.agent.edits.change_set import FileChange


def unified(changes: Iterable[FileChange]) -> str:
    """As `git apply` takes it: lines end with \\n alone, and names are quoted as git quotes them."""
    return "".join(line for change in changes for line in _of(change))


def shown(changes: Iterable[FileChange]) -> str:
    """The same for a person: nothing in it moves a terminal's cursor, hides or reorders text."""
    return "".join(f"{printable(line)}\n" for change in changes for line in _shown(change))


def _of(change: FileChange) -> Iterator[str]:
    """Each line with its end."""
    old, new = _name("a/", change.moved_from or change.path), _name("b/", change.path)
    yield f"diff --git {old} {new}\n"
    if change.before is None:
        yield "new file mode 100644\n"
    elif change.after is None:
        yield "deleted file mode 100644\n"
    elif change.moved_from is not None:
        yield f"rename from {_name('', change.moved_from)}\n"
        yield f"rename to {_name('', change.path)}\n"
    lines = unified_diff(
        _lines(change.before_text),
        _lines(change.after or ""),
        "/dev/null" if change.before is None else old,
        "/dev/null" if change.after is None else new,
    )
    for line in lines:
        if line.endswith("\n"):
            yield line
        else:
            yield f"{line}\n"
            yield "\\ No newline at end of file\n"


def _lines(text: str) -> Sequence[str]:
    return list(io.StringIO(text, newline="\n"))


def _shown(change: FileChange) -> Iterator[str]:
    """The lines without their ends. A \\r is left out with them only where all lines have one: elsewhere
    it may be what changes."""
    texts = (change.before_text, change.after or "")
    end = "\r\n" if all(text.count("\n") == text.count("\r\n") for text in texts) else "\n"
    for line in _of(change):
        yield line.removesuffix(end).removesuffix("\n")


def _name(side: str, path: str) -> str:
    quoted = "".join(map(_quoted, path))
    return f"{side}{path}" if quoted == path else f'"{side}{quoted}"'


def _quoted(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    is_raw_byte = "\udc80" <= char <= "\udcff"
    if char < " " or char == "\x7f" or is_raw_byte:
        return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
    return char
