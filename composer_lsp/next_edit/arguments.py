"""A function's parameters were changed: its calls follow.

An argument is taken away, moved or named anew as the parameters were. A new one is the variable of the
parameter's name where the caller has one; else the model writes it.
"""

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from composer_lsp.completion.edit_history import Edit
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.next_edit.proposal import Gap, OtherFiles, Proposal, Situation, line_of
from composer_lsp.next_edit.source import Argument, Call, Function, Parameter, Source
from composer_lsp.next_edit.tokens import MAX_TOKENS, is_identifier, operations, tokens_of

_CONSTRUCTORS = frozenset({"__init__", "constructor"})
_MAX_TEXT = 600
"""Characters of a function that the model is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """A function's parameters before and after."""

    name: str
    """As it is called: of a constructor, the class's."""
    old: tuple[Parameter, ...]
    new: tuple[Parameter, ...]
    is_member: bool
    text: str
    """Of the function, as it is now."""
    replaced: Mapping[str, str]
    """What parameters have taken the place of in the function's body, as tokens."""
    document: DocumentSnapshot
    edit: Edit

    @property
    def change(self) -> tuple[str, ...]:
        names = ", ".join(parameter.name for parameter in self.new)
        return "argument", self.name, names

    @property
    def added(self) -> Sequence[Parameter]:
        known = {parameter.name for parameter in self.old}
        return [each for each in self.new if each.name not in known]

    @property
    def removed(self) -> Sequence[Parameter]:
        known = {parameter.name for parameter in self.new}
        return [each for each in self.old if each.name not in known]

    @property
    def is_reordered(self) -> bool:
        names = [parameter.name for parameter in self.old]
        return sorted(names) == sorted(each.name for each in self.new) and names != [
            each.name for each in self.new
        ]


def signatures(situation: Situation) -> Iterator[Signature]:
    """Of the edits, the newest first."""
    for edit in reversed(situation.near_edits):
        if not any("(" in line or ")" in line or "," in line for line in edit.new_lines):
            continue
        document = situation.snapshots[edit.uri]
        source, before = situation.sources(document), situation.sources(situation.before(edit))
        if source is None or before is None:
            continue
        for function in source.functions:
            found = _signature(function, source, before, document, edit)
            if found is not None:
                yield replace(found, replaced=_replaced(situation, edit.uri, function, source))


def in_document(
    signature: Signature, document: DocumentSnapshot, source: Source, edits: Sequence[Edit]
) -> list[Proposal]:
    """The calls of a document that do not follow yet."""
    later = [each for each in edits if each.order > signature.edit.order]
    later = [each for each in later if each.uri == document.uri]
    found: list[Proposal] = []
    for call in source.calls:
        if not _is_of(signature, call, document, source):
            continue
        row = line_of(document.text, call.start)
        was_touched = any(each.first_line <= row < each.end_line for each in later)
        proposal = _mended(signature, call, document, source, was_touched=was_touched)
        found += [proposal] if proposal is not None else []
    return found


async def elsewhere(
    signature: Signature, situation: Situation, others: OtherFiles
) -> list[Proposal]:
    """The calls in other files than the situation's."""
    if signature.is_member and await others.definitions(signature.name) > 0:
        return []
    found: list[Proposal] = []
    for document in await others.mentioning(signature.name):
        if document.uri != situation.document.uri:
            source = situation.sources(document)
            if source is not None:
                found += in_document(signature, document, source, situation.edits)
    return found


def _signature(
    function: Function, source: Source, before: Source, document: DocumentSnapshot, edit: Edit
) -> Signature | None:
    span = function.parameters_span
    first, last = line_of(source.text, span.start), line_of(source.text, span.end)
    if not function.name or last < edit.first_line or first >= edit.end_line:
        return None
    same = [
        each
        for each in before.functions
        if each.name == function.name and _class(each, before) == _class(function, source)
    ]
    num_now = sum(
        each.name == function.name and _class(each, source) == _class(function, source)
        for each in source.functions
    )
    if len(same) != 1 or num_now != 1 or same[0].parameters == function.parameters:
        return None
    is_constructor = function.name in _CONSTRUCTORS
    name = _class(function, source) if is_constructor else function.name
    return Signature(
        name=name,
        old=same[0].parameters,
        new=function.parameters,
        is_member=function.is_member and not is_constructor,
        text=source.text[function.start : function.end][:_MAX_TEXT],
        replaced={},
        document=document,
        edit=edit,
    )


def _replaced(situation: Situation, uri: str, function: Function, source: Source) -> dict[str, str]:
    """By the edits in a function: for each word that took the place of a literal or of a name of the
    file's, which one. What was one and the same for all callers is what they mean."""
    first, last = line_of(source.text, function.start), line_of(source.text, function.end)
    found: dict[str, str] = {}
    for edit in situation.edits:
        if edit.uri != uri or not first <= edit.first_line <= last:
            continue
        old, new = tokens_of("\n".join(edit.old_lines)), tokens_of("\n".join(edit.new_lines))
        for operation in operations(old, new) if max(len(old), len(new)) <= MAX_TOKENS else ():
            value = "".join(old[operation.start : operation.end])
            is_shared = _LITERAL.fullmatch(value) or _is_global(value, function, source)
            if len(operation.new) == 1 and is_shared:
                found[operation.new[0]] = value
    return found


def _is_global(name: str, function: Function, source: Source) -> bool:
    index = source.functions.index(function)
    return is_identifier(name) and name not in source.bound.get(index, ())


def _builtins(document: DocumentSnapshot) -> frozenset[str]:
    return _BUILTINS if document.language_id == "python" else frozenset()


_BUILTINS = frozenset(dir(builtins))
_LITERAL = re.compile(r"""-?\d[\w.]*|"[^"\n]*"|'[^'\n]*'|True|False|None|true|false|null|nil""")


def _class(function: Function, source: Source) -> str:
    return source.classes[function.in_class][0] if function.in_class >= 0 else ""


def _is_of(signature: Signature, call: Call, document: DocumentSnapshot, source: Source) -> bool:
    """Whether a call is of the function, as far as names tell."""
    if call.name != signature.name:
        return False
    is_own = document.uri == signature.document.uri
    if signature.is_member:
        if not call.object or document.language_id != signature.document.language_id:
            return False
        owners = {each.in_class for each in source.functions if each.name == signature.name}
        return len(owners) <= 1 or call.object in ("self", "this")
    if is_own:
        return not call.object
    if call.object:
        return call.object == PurePosixPath(unquote(urlsplit(signature.document.uri).path)).stem
    is_imported = any(each.name == call.name for each in source.imported)
    is_near = document.language_id == "go" and _folder(document) == _folder(signature.document)
    return is_imported or is_near


def _folder(document: DocumentSnapshot) -> str:
    return str(PurePosixPath(unquote(urlsplit(document.uri).path)).parent)


def _mended(
    signature: Signature,
    call: Call,
    document: DocumentSnapshot,
    source: Source,
    *,
    was_touched: bool,
) -> Proposal | None:
    if any(argument.is_splat for argument in call.arguments):
        return None
    if signature.is_reordered:
        return None if was_touched else _reordered(signature, call, document)
    added, removed = signature.added, signature.removed
    if len(added) == len(removed) == 1 and len(signature.old) == len(signature.new):
        return _renamed(signature, call, document, removed[0], added[0])
    if removed and not added:
        return _without(signature, call, document, removed)
    if added and not removed:
        return _with(signature, call, document, source, added)
    return None


def _positional(call: Call) -> list[Argument]:
    return [argument for argument in call.arguments if not argument.keyword]


def _reordered(signature: Signature, call: Call, document: DocumentSnapshot) -> Proposal | None:
    positional = _positional(call)
    old_names = [parameter.name for parameter in signature.old]
    if len(positional) != len(old_names) or len(call.arguments) != len(positional):
        return None
    by_name = dict(zip(old_names, positional, strict=True))
    moved = [by_name[parameter.name].text for parameter in signature.new]
    if moved == [argument.text for argument in positional]:
        return None
    text = ", ".join(moved)
    start, end = positional[0].start, positional[-1].end
    return _proposal(signature, document, start, end, text, f"Reorder the arguments of {call.name}")


def _renamed(
    signature: Signature,
    call: Call,
    document: DocumentSnapshot,
    removed: Parameter,
    added: Parameter,
) -> Proposal | None:
    for argument in call.arguments:
        if argument.keyword == removed.name:
            end = argument.start + len(removed.name)
            title = f"Rename the argument {removed.name} to {added.name}"
            return _proposal(signature, document, argument.start, end, added.name, title)
    return None


def _without(
    signature: Signature, call: Call, document: DocumentSnapshot, removed: Sequence[Parameter]
) -> Proposal | None:
    positional = _positional(call)
    names = {parameter.name for parameter in removed}
    gone = {argument.start for argument in call.arguments if argument.keyword in names}
    old = [parameter.name for parameter in signature.old if not parameter.is_variadic]
    num_new = sum(not each.is_keyword_only for each in signature.new)
    if len(positional) > num_new and not any(each.is_variadic for each in signature.new):
        gone |= {
            argument.start for argument, name in zip(positional, old, strict=False) if name in names
        }
    if not gone:
        return None
    # One place at a time is what editors show: from the first that goes to what stays behind it.
    arguments = list(call.arguments)
    kept = [argument for argument in arguments if argument.start not in gone]
    first = next(index for index, each in enumerate(arguments) if each.start in gone)
    if not kept:
        start, end, text = arguments[0].start, arguments[-1].end, ""
        rest = document.text[end : call.arguments_span.end - 1]
        end += len(rest) if rest.strip() == "," else 0
    elif all(each.start in gone for each in arguments[first:]):
        start, end, text = arguments[first - 1].end, arguments[-1].end, ""
    else:
        start = arguments[first].start
        behind = [each for each in arguments[first:] if each.start not in gone]
        end, text = behind[0].start, ""
        if len(gone) > 1:
            end = arguments[-1].end
            text = ", ".join(each.text for each in behind)
    words = ", ".join(parameter.name for parameter in removed)
    return _proposal(signature, document, start, end, text, f"Remove the argument {words}")


def _with(
    signature: Signature,
    call: Call,
    document: DocumentSnapshot,
    source: Source,
    added: Sequence[Parameter],
) -> Proposal | None:
    positional = _positional(call)
    keywords = {argument.keyword for argument in call.arguments if argument.keyword}
    by_position = [each for each in signature.new if not each.is_keyword_only]
    missing = [
        each
        for index, each in enumerate(signature.new)
        if each.is_required
        and each.name not in keywords
        and not _is_filled(each, index, positional)
    ]
    if not missing:
        return None
    parameter = next((each for each in added if each.is_required), None)
    if parameter is None or parameter.name in keywords or len(missing) > len(added):
        return None
    index = by_position.index(parameter) if parameter in by_position else len(positional)
    name = ""
    if parameter.is_keyword_only or index > len(positional):
        if document.language_id != "python":
            return None
        name, index = f"{parameter.name}=", len(call.arguments)
    return _insertion(signature, call, document, source, parameter, index, name)


def _is_filled(parameter: Parameter, index: int, positional: Sequence[Argument]) -> bool:
    return not parameter.is_keyword_only and index < len(positional)


def _insertion(
    signature: Signature,
    call: Call,
    document: DocumentSnapshot,
    source: Source,
    parameter: Parameter,
    index: int,
    name: str,
) -> Proposal:
    arguments = call.arguments
    if not arguments:
        start, before, after = call.arguments_span.start + 1, name, ""
    elif index == 0:
        start, before, after = arguments[0].start, name, ", "
    else:
        start, before, after = arguments[index - 1].end, ", " + name, ""
    title = f"Add the argument {parameter.name}"
    value = parameter.name if _has_variable(parameter.name, call, source) else ""
    replaced = signature.replaced.get(parameter.name, "")
    if _LITERAL.fullmatch(replaced) or replaced in source.bound[-1] | _builtins(document):
        value = value or replaced
    if value:
        return _proposal(signature, document, start, start, before + value + after, title)
    # Where arguments have names the model is shown it, else as a comment.
    cue = f"{parameter.name}=" if document.language_id == "python" else f"/* {parameter.name} */ "
    return Proposal(
        kind="argument",
        document=document,
        start=start,
        end=start,
        text="",
        title=title,
        change=signature.change,
        gap=Gap(before=before, after=after, cue="" if name else cue, about=signature.text),
    )


def _has_variable(name: str, call: Call, source: Source) -> bool:
    function = call.function
    while function >= 0:
        if name in source.bound.get(function, ()):
            return True
        function = source.functions[function].parent
    return name in source.bound[-1]


def _proposal(
    signature: Signature, document: DocumentSnapshot, start: int, end: int, text: str, title: str
) -> Proposal:
    return Proposal(
        kind="argument",
        document=document,
        start=start,
        end=end,
        text=text,
        title=title,
        change=signature.change,
    )
