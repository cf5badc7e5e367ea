"""What other tools say of the window's documents, as far as the editor has told it.

LSP has no request by which a server asks an editor for the diagnostics of others. An editor sends
those of a range along when it asks for code actions there, and some clients send them with a
command; both are remembered until the document changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from lsprotocol import types

_MAX_A_DOCUMENT = 200
_MAX_MESSAGE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Known:
    """A diagnostic, with the lines that it is about (0-based, both included)."""

    start_line: int
    end_line: int
    severity: types.DiagnosticSeverity
    message: str
    source: str


class Diagnostics:
    """Event loop only."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[int, list[Known]]] = {}

    def remember(
        self, uri: str, version: int, within: types.Range, sent: Sequence[types.Diagnostic]
    ) -> None:
        """Those of a range of a document, in place of what was known of these lines."""
        key = unquote(uri)
        known = self._of(key, version)
        first, last = sorted((within.start.line, within.end.line))
        kept = [each for each in known if each.end_line < first or each.start_line > last]
        new = dict.fromkeys(known_of(each) for each in sent)
        if new or kept:
            merged = list(dict.fromkeys([*kept, *new]))[-_MAX_A_DOCUMENT:]
            self._documents[key] = version, merged
        else:
            self._documents.pop(key, None)

    def of(self, uri: str, version: int) -> Sequence[Known]:
        """What is known of this version, by line."""
        return sorted(self._of(unquote(uri), version), key=lambda each: each.start_line)

    def forget(self, uri: str) -> None:
        self._documents.pop(unquote(uri), None)

    def _of(self, key: str, version: int) -> Sequence[Known]:
        known = self._documents.get(key)
        return known[1] if known is not None and known[0] == version else ()


def known_of(diagnostic: types.Diagnostic) -> Known:
    code = f" [{diagnostic.code}]" if diagnostic.code is not None else ""
    return Known(
        start_line=diagnostic.range.start.line,
        end_line=diagnostic.range.end.line,
        severity=diagnostic.severity or types.DiagnosticSeverity.Error,
        message=diagnostic.message[:_MAX_MESSAGE_CHARS] + code,
        source=diagnostic.source or "",
    )


def known_from_json(values: Iterable[object]) -> list[Known]:
    """Of a command's argument: diagnostics as LSP writes them. Raises: ValueError."""
    return [_from_json(value) for value in values]


def _from_json(value: object) -> Known:
    try:
        fields = cast("Mapping[str, Any]", value)
        return Known(
            start_line=int(fields["range"]["start"]["line"]),
            end_line=int(fields["range"]["end"]["line"]),
            severity=types.DiagnosticSeverity(fields.get("severity") or 1),
            message=str(fields["message"])[:_MAX_MESSAGE_CHARS],
            source=str(fields.get("source") or ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no diagnostic of LSP") from error


def to_json(known: Known) -> dict[str, Any]:
    """As `known_from_json` reads it."""
    return {
        "range": {
            "start": {"line": known.start_line, "character": 0},
            "end": {"line": known.end_line, "character": 0},
        },
        "severity": known.severity.value,
        "message": known.message,
        "source": known.source,
    }
