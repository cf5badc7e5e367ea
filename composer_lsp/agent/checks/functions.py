"""The functions of a file, as far as they can be compared with others."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from composer_index.chunk import Definition, ParsedFile
from composer_index.parsing import parse_file
from composer_index.search.boost import is_test
from composer_lsp.agent.checks.similar import Shape, shape_of
from composer_lsp.agent.edits.lines import split_lines

_UNREMARKABLE = re.compile(r"__\w+__$|tests?(?:_|$)|test[A-Z]|(?:main|setUp|tearDown)$")
"""Names of what each class or program has one of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    path: str
    line: int
    """1-based."""
    name: str
    symbol: str
    is_method: bool
    language: str
    """LSP language id."""
    shape: Shape

    @property
    def scope(self) -> tuple[str, str]:
        """What it lies in: a class, or the file."""
        return self.path, self.symbol.removesuffix(self.name)


@lru_cache(maxsize=100)
def functions_of(path: str, text: str) -> tuple[Function, ...]:
    """Without trivial ones, those that lie in another function, tests, and special methods. Some
    milliseconds: call it in a thread."""
    if is_test(path):
        return ()
    parsed = parse_file(path, text.encode("utf-8", "surrogateescape"))
    if not isinstance(parsed, ParsedFile):
        return ()
    lines = split_lines(text)
    return tuple(
        one
        for each in _outermost(parsed.definitions)
        if not _UNREMARKABLE.match(each.name)
        and not (one := _function(path, parsed.language, each, lines)).shape.is_trivial
    )


def _outermost(definitions: Sequence[Definition]) -> Iterator[Definition]:
    end = 0
    for each in definitions:
        if each.kind in ("function", "method") and each.start_line > end:
            end = each.end_line
            yield each


def _function(path: str, language: str, each: Definition, lines: Sequence[str]) -> Function:
    text = "".join(lines[each.start_line - 1 : each.end_line])
    return Function(
        path=path,
        line=each.start_line,
        name=each.name,
        symbol=each.symbol,
        is_method=each.kind == "method",
        language=language,
        shape=shape_of(text, each.name),
    )
