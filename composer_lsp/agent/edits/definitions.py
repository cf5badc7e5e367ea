"""Puts functions and classes, written anew as a whole, in the place of those that a file has.

A small model that is to find a passage and replace it copies the passage wrongly; what it writes as a
whole it writes well.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from composer_index.chunk import Definition, ParsedFile
from composer_index.parsing import parse_file
from composer_lsp.agent.edits.lines import split_lines, with_line_feeds
from composer_lsp.agent.edits.replace import with_ends_of
from composer_lsp.completion.indentation import leading

_LEFT_OUT = re.compile(
    r"^\s*(?:#|//|--|/\*|<!--)\s*(?:\.\.\.|…|\(?(?:the )?(?:rest|remaining|existing|unchanged|other)\b"
    r".*\b(?:code|functions?|methods?|file|class|unchanged|same|here|tests?)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_IMPORT = re.compile(
    r"(?:import|from|use|using|require|#\s*include)\b|(?:const|let|var)\b.*\brequire\("
)
VALUES = ("constant", "field", "variable")
"""Kinds of definitions that hold no code of their own."""
_ABOVE = ("@", "#", "//", "/*", "*", "///", "--", "#[")
"""How lines begin that belong to the definition below them."""


class DefinitionError(Exception):
    """The code cannot be put into the file; the text says why. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A definition of the new code: lines with their ends, without what stands left of it."""

    name: str
    symbol: str
    kind: str
    above: Sequence[str]
    """Its decorators and comments."""
    lines: Sequence[str]


def put_definitions(path: str, text: str, code: str) -> str:
    """`text`, the file at `path`, with the definitions of `code` in it: in the place of those with
    their names, or behind the others. Imports of `code` that are missing are added. Members that a
    class of `code` does not have stay.

    Raises: DefinitionError.
    """
    code = with_line_feeds(code).strip("\n") + "\n"
    if _LEFT_OUT.search(code):
        raise DefinitionError("a comment stands for code that is left out; write all of it")
    new = _parsed(path, code)
    if not new.definitions:
        raise DefinitionError("it defines nothing; write the whole function or class")
    flat = with_line_feeds(text)
    new_lines = split_lines(code)
    for definition in _outermost(new.definitions):
        flat = _put(path, flat, definition, new, new_lines)
    flat = _with_imports(flat, _imports(new_lines, new.definitions[0].start_line))
    return with_ends_of(text, flat)


def definitions_replaced(path: str, text: str, code: str) -> list[Definition]:
    """Those of the file that `put_definitions` would put others in the place of. Raises: as it."""
    old, new = _parsed(path, with_line_feeds(text)), _parsed(path, with_line_feeds(code))
    found: list[Definition] = []
    for definition in _outermost(new.definitions):
        same = _with_name(old.definitions, definition)
        if same is None:
            continue
        members, names = _members(old.definitions, same), _names_of_members(new, definition)
        is_whole = not names or {each.name for each in members} <= names
        found += [same] if is_whole else [each for each in members if each.name in names]
    return found


def names_defined(path: str, text: str) -> set[str]:
    """Of functions, classes and the like, on the outside of the text of a file at `path`."""
    parsed = parse_file(path, text.encode("utf-8", "surrogateescape"))
    if not isinstance(parsed, ParsedFile):
        return set()
    return {each.name for each in _outermost(parsed.definitions) if each.kind not in VALUES}


def _parsed(path: str, text: str) -> ParsedFile:
    parsed = parse_file(path, text.encode("utf-8", "surrogateescape"))
    if not isinstance(parsed, ParsedFile):
        raise DefinitionError(f"{path} is no text that can be taken apart")
    return parsed


def _outermost(definitions: Sequence[Definition]) -> Iterator[Definition]:
    end = 0
    for each in definitions:
        if each.start_line > end:
            end = each.end_line
            yield each


def _put(
    path: str, flat: str, definition: Definition, new: ParsedFile, new_lines: Sequence[str]
) -> str:
    old = _parsed(path, flat)
    found = _with_name(old.definitions, definition)
    if found is None:
        return _appended(path, flat, _piece(definition, new_lines))
    members = _members(new.definitions, definition)
    names = _names_of_members(new, definition)
    if not names or {each.name for each in _members(old.definitions, found)} <= names:
        return _replaced(flat, found, _piece(definition, new_lines))
    for member in members:
        old = _parsed(path, flat)
        owner = _with_name(old.definitions, definition)
        assert owner is not None, "it was found before"
        piece = _piece(member, new_lines)
        same = [each for each in _members(old.definitions, owner) if each.name == member.name]
        flat = _replaced(flat, same[0], piece) if same else _added_to(flat, owner, piece)
    return flat


def _with_name(definitions: Sequence[Definition], of: Definition) -> Definition | None:
    """Raises: DefinitionError where several may be meant."""
    same = [each for each in definitions if each.symbol == of.symbol]
    same = same or [each for each in definitions if each.name == of.name]
    if len(same) > 1:
        lines = ", ".join(str(each.start_line) for each in same)
        raise DefinitionError(
            f"{of.name} is defined in lines {lines}; write the whole class of one"
        )
    return same[0] if same else None


def _members(definitions: Sequence[Definition], of: Definition) -> list[Definition]:
    """Of a class: what is defined in it, and not deeper."""
    if of.kind in ("function", "method", *VALUES):
        return []
    inner = (
        each
        for each in definitions
        if each is not of and of.start_line <= each.start_line <= each.end_line <= of.end_line
    )
    return list(_outermost(list(inner)))


def _names_of_members(parsed: ParsedFile, of: Definition) -> set[str]:
    return {each.name for each in _members(parsed.definitions, of)}


def _piece(definition: Definition, lines: Sequence[str]) -> _Piece:
    first = _first_above(lines, definition.start_line - 1)
    margin = leading(lines[definition.start_line - 1])
    bare = [line.removeprefix(margin) for line in lines[first : definition.end_line]]
    num_above = definition.start_line - 1 - first
    body = bare[num_above:]
    if not body[-1].endswith("\n"):
        body[-1] += "\n"
    return _Piece(definition.name, definition.symbol, definition.kind, bare[:num_above], body)


def _first_above(lines: Sequence[str], start: int) -> int:
    """The first line of the decorators and comments that stand on line `start`, 0-based."""
    first = start
    while first and lines[first - 1].strip().startswith(_ABOVE):
        first -= 1
    return first


def _replaced(flat: str, old: Definition, piece: _Piece) -> str:
    lines = split_lines(flat)
    start = old.start_line - 1
    margin = leading(lines[start])
    decorated = any(line.startswith("@") for line in piece.above)
    first = _first_above(lines, start) if decorated else start
    body = [*(piece.above if decorated else ()), *piece.lines]
    return "".join([*lines[:first], *_indented(body, margin), *lines[old.end_line :]])


def _added_to(flat: str, owner: Definition, piece: _Piece) -> str:
    lines = split_lines(flat)
    inner = next(
        (line for line in lines[owner.start_line : owner.end_line] if line.strip()), "    x"
    )
    ends = lines[owner.end_line - 1].strip() in ("}", "};", "end")
    at = owner.end_line - 1 if ends else owner.end_line
    added = ["\n", *_indented([*piece.above, *piece.lines], leading(inner))]
    return "".join([*lines[:at], *added, *lines[at:]])


def _appended(path: str, flat: str, piece: _Piece) -> str:
    if "." in piece.symbol:
        raise DefinitionError(f"there is no {piece.symbol.rpartition('.')[0]} in {path}")
    flat = flat.rstrip("\n") + "\n" if flat.strip() else ""
    is_variable = piece.kind == "variable"
    gap = (
        ("" if is_variable else "\n\n" if path.endswith((".py", ".pyi")) else "\n") if flat else ""
    )
    return flat + gap + "".join([*piece.above, *piece.lines])


def _indented(lines: Sequence[str], margin: str) -> list[str]:
    return [margin + line if line.strip() else line for line in lines]


def _imports(lines: Sequence[str], first_line: int) -> list[str]:
    """Statements before the first definition, each with its lines."""
    found: list[str] = []
    is_open = False
    for line in lines[: first_line - 1]:
        if is_open:
            found[-1] += line
        elif _IMPORT.match(line):
            found.append(line)
        else:
            continue
        is_open = found[-1].count("(") > found[-1].count(")")
    return found


def _with_imports(flat: str, imports: Sequence[str]) -> str:
    has = {" ".join(line.split()) for line in flat.split("\n")}
    missing = [each for each in imports if " ".join(each.split()) not in has]
    if not missing:
        return flat
    lines = split_lines(flat)
    at = 0
    is_open = False
    for number, line in enumerate(lines, 1):
        if is_open or _IMPORT.match(line):
            at = number
            is_open = line.count("(") > line.count(")") or (is_open and ")" not in line)
    if not at:
        at = next((n for n, line in enumerate(lines) if line.startswith(("def ", "class "))), 0)
        missing = [*missing, "\n", "\n"]
    return "".join([*lines[:at], *missing, *lines[at:]])
