"""Syntactic holes in Python files: a call's arguments, a statement, a function's body."""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["arguments", "statement", "body"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_MIN_CHARS = 8
"""Shorter ones say nothing of what was known."""
_MAX_CHARS = 160
_MAX_BODY_LINES = 12
_STATEMENTS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Expr,
    ast.Return,
    ast.Raise,
    ast.Assert,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True, slots=True)
class Hole:
    path: str
    """Relative to the package."""
    kind: Kind
    start: int
    """Offsets of the solution in the file:"""
    end: int
    function: tuple[int, int]
    """Lines of the function around it, decorators included: from 0, the end excluded."""

    @property
    def key(self) -> str:
        return f"{self.path}:{self.start}-{self.end}"


def find_holes(path: str, text: str) -> list[Hole]:
    """All of a file, by their places; none in one that Python does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    places = _Places(text)
    found: dict[tuple[Kind, int, int], Hole] = {}
    for function in _functions(tree):
        lines = _lines_of(function)
        for kind, (start, end) in _spans(function, places):
            # Of nested functions the innermost, which comes last.
            hole = Hole(path=path, kind=kind, start=start, end=end, function=lines)
            found[kind, start, end] = hole
    return sorted(found.values(), key=lambda each: (each.start, each.end))


def draw_holes(folder: Path, *, num_of_each: int, seed: int) -> list[Hole]:
    """`num_of_each` of each kind, or as many as there are; no two in functions that share lines, as all
    of these are taken out of what is indexed."""
    every = [
        hole
        for path in sorted(folder.rglob("*.py"))
        for hole in find_holes(path.relative_to(folder).as_posix(), path.read_text("utf-8"))
    ]
    chance = random.Random(seed)
    chosen: list[Hole] = []
    for kind in KINDS:
        candidates = [each for each in every if each.kind == kind]
        chance.shuffle(candidates)
        num = 0
        for each in candidates:
            if num < num_of_each and not any(_share_lines(each, other) for other in chosen):
                chosen.append(each)
                num += 1
    return chosen


def without_functions(text: str, holes: Sequence[Hole]) -> str:
    """The file's text without the functions around these of its holes."""
    gone = {number for hole in holes for number in range(*hole.function)}
    lines = text.splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines) if number not in gone)


class _Places:
    """Offsets of the places that the parser names by line and by bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)


def _functions(tree: ast.Module) -> Iterator[Function]:
    """Those that are not all that their block has: it has to parse without."""
    for parent in ast.walk(tree):
        body: list[ast.stmt] | ast.expr | None = getattr(parent, "body", None)
        if isinstance(body, list) and len(body) > 1:
            yield from (each for each in body if isinstance(each, Function))


def _lines_of(function: Function) -> tuple[int, int]:
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    assert function.end_lineno is not None
    return first - 1, function.end_lineno


def _spans(function: Function, places: _Places) -> Iterator[tuple[Kind, tuple[int, int]]]:
    body = _body_of(function)
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (span := _arguments(node, places)):
                yield "arguments", span
            if isinstance(node, _STATEMENTS) and (span := _statement(node, places)):
                yield "statement", span
    if body and (span := _whole(body, places)):
        yield "body", span


def _body_of(function: Function) -> list[ast.stmt]:
    """But for its docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if has_docstring else function.body


def _arguments(call: ast.Call, places: _Places) -> tuple[int, int] | None:
    start = places.text.find("(", places.end(call.func)) + 1
    end = places.end(call) - 1
    return (start, end) if _is_wanted(places.text[start:end]) else None


def _statement(node: ast.stmt, places: _Places) -> tuple[int, int] | None:
    start, end = places.start(node), places.end(node)
    head = places.text[places.text.rfind("\n", 0, start) + 1 : start]
    tail = places.text[end : places.text.find("\n", end)]
    is_alone = not head.strip() and not tail.strip()
    return (start, end) if is_alone and _is_wanted(places.text[start:end]) else None


def _whole(body: Sequence[ast.stmt], places: _Places) -> tuple[int, int] | None:
    start, end = places.start(body[0]), places.end(body[-1])
    head = places.text[places.text.rfind("\n", 0, start) + 1 : start]
    num_lines = places.text.count("\n", start, end) + 1
    is_wanted = not head.strip() and 2 <= num_lines <= _MAX_BODY_LINES
    return (start, end) if is_wanted else None


def _is_wanted(solution: str) -> bool:
    return _MIN_CHARS <= len(solution.strip()) <= _MAX_CHARS and "\n" not in solution


def _share_lines(one: Hole, other: Hole) -> bool:
    is_apart = one.function[1] <= other.function[0] or other.function[1] <= one.function[0]
    return one.path == other.path and not is_apart
