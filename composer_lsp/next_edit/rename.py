"""A name was changed where it is introduced, or at one use: its other uses follow.

What a name means is told by what binds it: a parameter and a local variable belong to their function,
what is defined at the top to the file and those that import it, a method or field to whatever is
reached by a dot. Where two meanings cannot be told apart, nothing is proposed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from composer_lsp.completion.edit_history import Edit
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.next_edit.proposal import OtherFiles, Proposal, Situation
from composer_lsp.next_edit.source import Name, Source
from composer_lsp.next_edit.tokens import Replaced, replaced_words

Reach = Literal["local", "file", "member"]

_MIN_LIKENESS = 0.5
"""Of the two names, where a use was changed and not what introduces the name."""
_MIN_MEMBER_CHARS = 3
_BY_IMPORT = frozenset({"python", "javascript", "javascriptreact", "typescript", "typescriptreact"})
"""Languages in which a file names what it takes from another."""
_BY_FOLDER = frozenset({"go"})
"""Languages in which the files of a folder see one another's names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rename:
    old: str
    new: str
    document: DocumentSnapshot
    source: Source
    reach: Reach
    function: int
    """Index of the function that a local name belongs to."""
    in_class: int
    """Index of the class that a member belongs to, -1 where that is not known."""

    @property
    def scope(self) -> tuple[object, ...]:
        """What tells apart two of the same names."""
        return self.document.uri, self.reach, self.function, self.in_class

    @property
    def change(self) -> tuple[str, ...]:
        return "rename", self.old, self.new

    def proposal(self, document: DocumentSnapshot, name: Name) -> Proposal:
        return Proposal(
            kind="rename",
            document=document,
            start=name.start,
            end=name.end,
            text=self.new,
            title=f"Rename {self.old} to {self.new}",
            change=self.change,
        )


def renames(situation: Situation) -> Iterator[Rename]:
    """Of the edits, the newest first; each pair of names once for each scope."""
    seen: set[tuple[object, ...]] = set()
    traced: set[tuple[str, str]] = set()
    pairs = [_pairs(edit) for edit in situation.edits]
    num_near = len(situation.near_edits)
    for edit, own in reversed([*zip(situation.edits, pairs, strict=True)][-num_near:]):
        for pair in own:
            # What was changed first is what the others follow from.
            first = () if pair in traced else _first(situation, pairs, pair)
            traced.add(pair)
            for found in (_rename(situation, edit, pair), *first):
                if found is not None and (scope := (pair, *found.scope)) not in seen:
                    seen.add(scope)
                    yield found


def _first(
    situation: Situation, pairs: Sequence[Sequence[tuple[str, str]]], pair: tuple[str, str]
) -> Iterator[Rename]:
    for edit, own in zip(situation.edits, pairs, strict=True):
        found = _rename(situation, edit, pair) if pair in own else None
        if found is not None:
            yield found
            return


def in_document(rename: Rename, document: DocumentSnapshot, source: Source) -> list[Proposal]:
    """The uses that are left in a document, which may be another than the rename's."""
    if document.uri == rename.document.uri:
        found = _own_uses(rename)
    else:
        found = _others_uses(rename, document, source)
    return [rename.proposal(document, name) for name in found]


async def elsewhere(rename: Rename, situation: Situation, others: OtherFiles) -> list[Proposal]:
    """The uses in other files than the situation's."""
    if rename.reach == "local":
        return []
    is_unique = rename.reach == "file" or await others.definitions(rename.old) == 0
    if not is_unique:
        return []
    found: list[Proposal] = []
    for document in await others.mentioning(rename.old):
        if document.uri != situation.document.uri:
            source = situation.sources(document)
            found += in_document(rename, document, source) if source is not None else []
    return found


def _pairs(edit: Edit) -> list[tuple[str, str]]:
    before, after = "\n".join(edit.old_lines), "\n".join(edit.new_lines)
    placed = Edit(
        uri=edit.uri,
        language_id=edit.language_id,
        first_line=0,
        old_lines=edit.old_lines,
        new_lines=edit.new_lines,
    )
    return [(each.old, each.new) for each in replaced_words(placed, before, after)]


def _rename(situation: Situation, edit: Edit, pair: tuple[str, str]) -> Rename | None:
    document, before = situation.snapshots[edit.uri], situation.before(edit)
    source, old_source = situation.sources(document), situation.sources(before)
    if source is None or old_source is None:
        return None
    for each in replaced_words(edit, before.text, document.text):
        if (each.old, each.new) == pair:
            return _of_replaced(each, document, source, old_source)
    return None


def _of_replaced(
    each: Replaced, document: DocumentSnapshot, source: Source, old_source: Source
) -> Rename | None:
    name, old_name = source.name_at(each.new_start), old_source.name_at(each.old_start)
    if name is None or old_name is None or name.is_keyword or name.is_import:
        return None
    reach, function, in_class = _reach(name, source)
    rename = Rename(
        old=each.old,
        new=each.new,
        document=document,
        source=source,
        reach=reach,
        function=function,
        in_class=in_class,
    )
    is_introduced = name.is_introduced and old_name.is_introduced
    if not is_introduced and reach == "member":
        is_introduced = _is_assigned(name, source) and _is_assigned(old_name, old_source)
    if is_introduced:
        is_first = reach == "member" or not _is_bound_before(rename, name)
        return rename if is_first and not _was_taken(rename, old_source) else None
    return _of_use(rename, old_name, old_source)


def _reach(name: Name, source: Source) -> tuple[Reach, int, int]:
    if name.is_attribute or (
        name.is_introduced
        and name.in_class >= 0
        and name.function < 0
        and not (name.is_definition and _is_class_name(name, source))
    ):
        return "member", -1, name.in_class
    function = source.scope(name)
    return ("local", function, -1) if function >= 0 else ("file", -1, -1)


def _is_bound_before(rename: Rename, name: Name) -> bool:
    """Whether the old name is introduced further up: what was changed is another variable then."""
    source = rename.source
    return any(
        each.text == rename.old and each.is_introduced and source.scope(each) == rename.function
        for each in source.names
        if each.start < name.start and not each.is_attribute
    )


def _is_class_name(name: Name, source: Source) -> bool:
    return any(each == name.text and span.holds(name.start) for each, span in source.classes)


def _is_assigned(name: Name, source: Source) -> bool:
    """Whether it is a field that is given a value here, as in `self.total = 0`."""
    rest = source.text[name.end : name.end + 40].lstrip()
    is_own = source.object_of(name) in ("self", "this")
    return is_own and rest.startswith("=") and not rest.startswith("==")


def _was_taken(rename: Rename, old_source: Source) -> bool:
    """Whether the new name meant something before, or the old one still does: then two things have
    become one, or there were two."""
    if rename.reach == "member":
        known = {name.text for name in old_source.names if name.is_attribute and name.is_definition}
        left = [name for name in rename.source.names if name.is_attribute and name.is_definition]
        return rename.new in known or any(
            name.text == rename.old and name.in_class != rename.in_class for name in left
        )
    if rename.reach == "local":
        names = old_source.names
        return any(
            name.text == rename.new and old_source.is_within(name.function, rename.function)
            for name in names
            if not name.is_attribute and not name.is_keyword
        )
    is_defined = any(
        name.text == rename.old and name.is_definition and not name.is_attribute
        for name in rename.source.names
    )
    return is_defined or rename.new in old_source.bound[-1]


def _of_use(rename: Rename, old_name: Name, old_source: Source) -> Rename | None:
    """A use was changed, to a name that nothing introduces: what introduces the old one follows."""
    is_known = any(each.text == rename.new and each.is_introduced for each in old_source.names)
    likeness = SequenceMatcher(None, rename.old, rename.new).ratio()
    if is_known or likeness < _MIN_LIKENESS:
        return None
    if rename.reach == "member":
        introduced = [
            each
            for each in rename.source.names
            if each.text == rename.old and each.is_attribute and each.is_definition
        ]
        return rename if len(introduced) == 1 else None
    function = old_source.scope(old_name)
    if rename.old not in old_source.bound.get(function, ()) or any(
        each.text == rename.old and each.is_import for each in old_source.names
    ):
        return None
    reach: Reach = "local" if function >= 0 else "file"
    return Rename(
        old=rename.old,
        new=rename.new,
        document=rename.document,
        source=rename.source,
        reach=reach,
        function=function,
        in_class=-1,
    )


def _own_uses(rename: Rename) -> Sequence[Name]:
    source = rename.source
    found = [name for name in source.names if name.text == rename.old and not name.is_keyword]
    if rename.reach == "member":
        return [name for name in found if _is_member(name, source)]
    found = [name for name in found if not name.is_attribute and not _is_member_name(name)]
    if rename.reach == "local":
        return [
            name
            for name in found
            if source.is_within(name.function, rename.function)
            and not _is_hidden(name, source, rename.function)
        ]
    return [name for name in found if not _is_hidden(name, source, -1)]


def _is_member(name: Name, source: Source) -> bool:
    return name.is_attribute or _is_member_name(name)


def _is_member_name(name: Name) -> bool:
    """Of a class's body, which is no scope for what is in its functions."""
    return name.is_binding and name.in_class >= 0 and name.function < 0


def _is_hidden(name: Name, source: Source, outer: int) -> bool:
    """Whether a function between the name and `outer` gives it a meaning of its own."""
    function = name.function
    while function not in (outer, -1):
        if name.text in source.bound.get(function, ()):
            return True
        function = source.functions[function].parent
    return False


def _others_uses(rename: Rename, document: DocumentSnapshot, source: Source) -> Sequence[Name]:
    if rename.reach == "local" or not _are_related(rename.document, document):
        return []
    found = [name for name in source.names if name.text == rename.old and not name.is_keyword]
    if rename.reach == "member":
        is_common = len(rename.old) < _MIN_MEMBER_CHARS or any(name.is_definition for name in found)
        return [] if is_common else [name for name in found if name.is_attribute]
    plain = [name for name in found if not name.is_attribute and not _is_hidden(name, source, -1)]
    is_own = any((name.is_binding or name.is_definition) and name.function < 0 for name in plain)
    if is_own:
        return []
    through = _stem(rename.document.uri, document.language_id)
    dotted = [name for name in found if name.is_attribute and source.object_of(name) == through]
    is_imported = any(
        name.is_import and name.text in (rename.old, rename.new) for name in source.names
    )
    is_visible = is_imported or (
        document.language_id in _BY_FOLDER and _folder(document.uri) == _folder(rename.document.uri)
    )
    if not is_visible and document.language_id in _BY_IMPORT | _BY_FOLDER:
        return dotted
    return sorted([*plain, *dotted], key=lambda name: name.start) if is_visible else dotted


def _are_related(one: DocumentSnapshot, other: DocumentSnapshot) -> bool:
    """Whether the languages of two documents can use one another's names."""
    return one.language_id == other.language_id or {one.language_id, other.language_id} <= (
        _BY_IMPORT - {"python"}
    )


def _stem(uri: str, language_id: str) -> str:
    path = PurePosixPath(unquote(urlsplit(uri).path))
    is_folders = language_id in _BY_FOLDER or path.stem in ("__init__", "index")
    return path.parent.name if is_folders else path.stem


def _folder(uri: str) -> str:
    return str(PurePosixPath(unquote(urlsplit(uri).path)).parent)
