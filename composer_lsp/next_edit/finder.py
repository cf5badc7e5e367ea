"""The next edit: what the newest edit leads to, the nearest place first."""

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from composer_lsp.next_edit import arguments, rename
from composer_lsp.next_edit.arguments import signatures
from composer_lsp.next_edit.caused import caused
from composer_lsp.next_edit.content import Writer, parses_no_worse, written
from composer_lsp.next_edit.imports import imports
from composer_lsp.next_edit.proposal import OtherFiles, Proposal, Situation, line_of
from composer_lsp.next_edit.rename import renames
from composer_lsp.next_edit.repeated import repeated

_MAX_WRITTEN = 2
"""Proposals that the model is asked to write, before it is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """Proposals of one change."""

    order: int
    """Of the edit that they follow from."""
    here: Sequence[Proposal]
    change: tuple[str, ...] = ()
    elsewhere: Callable[[OtherFiles], Awaitable[Sequence[Proposal]]] | None = None


async def next_edit(
    situation: Situation,
    others: OtherFiles,
    writer: Writer,
    dismissed: Collection[tuple[str, ...]] = (),
) -> Proposal | None:
    """Where and what to change next, whole; None where nothing follows.

    Raises: what `others` and `writer` raise.
    """
    ended = threading.Event()
    try:
        found = await asyncio.to_thread(_found, replace(situation, is_ended=ended.is_set))
    except asyncio.CancelledError:
        ended.set()  # A thread goes on by itself.
        raise
    num_written = 0
    async with aclosing(_candidates(found, others, dismissed)) as candidates:
        async for proposal in candidates:
            if proposal.gap is not None:
                num_written += 1
                if num_written > _MAX_WRITTEN:
                    continue
            whole = await _whole(proposal, situation, writer)
            if whole is not None:
                return whole
    return None


async def _candidates(
    found: Sequence["_Found"], others: OtherFiles, dismissed: Collection[tuple[str, ...]]
) -> AsyncGenerator[Proposal, None]:
    """Those of the document first; other files are asked for when there are none left."""
    for one in found:
        for proposal in one.here:
            if proposal.change not in dismissed:
                yield proposal
    for one in found:
        if one.elsewhere is None or one.change in dismissed:
            continue
        for proposal in sorted(
            await one.elsewhere(others), key=lambda each: (each.document.uri, each.start)
        ):
            yield proposal


async def _whole(proposal: Proposal, situation: Situation, writer: Writer) -> Proposal | None:
    whole = await written(proposal, situation.edits, writer)
    if whole is None or whole.text == whole.old_text:
        return None
    return whole if await asyncio.to_thread(parses_no_worse, whole) else None


def _found(situation: Situation) -> list[_Found]:
    """Of the newest edit first."""
    document = situation.document
    source = situation.sources(document)
    found: list[_Found] = []
    for each in renames(situation) if source else ():
        here = rename.in_document(each, document, source) if source else []
        found.append(
            _Found(
                order=_order(situation, each.change[1:]),
                here=_near(here, situation),
                change=each.change,
                elsewhere=partial(rename.elsewhere, each, situation),
            )
        )
    for each in _signatures(situation) if source else ():
        here = arguments.in_document(each, document, source, situation.edits) if source else []
        found.append(
            _Found(
                order=each.edit.order,
                here=_near(here, situation),
                change=each.change,
                elsewhere=partial(arguments.elsewhere, each, situation),
            )
        )
    newest = max((edit.order for edit in situation.edits), default=0)
    own = max((edit.order for edit in situation.edits if edit.uri == document.uri), default=0)
    # Calls have arguments of their own: what one was given is not given to the others.
    calls = {each.line for one in found for each in one.here if each.kind == "argument"}
    again = [each for each in repeated(situation) if each.line not in calls]
    found.append(_Found(order=own, here=again))
    found.append(_Found(order=own, here=_near([*imports(situation)], situation)))
    found.append(_Found(order=newest, here=_near([*caused(situation)], situation)))
    return sorted(found, key=lambda one: -one.order)


def _signatures(situation: Situation) -> Iterator[arguments.Signature]:
    seen: set[str] = set()
    for each in signatures(situation):
        if each.name not in seen:
            seen.add(each.name)
            yield each


def _order(situation: Situation, pair: Sequence[str]) -> int:
    """Of the newest edit that could be a part of the change."""
    return max(
        (
            edit.order
            for edit in situation.edits
            if pair[0] in " ".join(edit.old_lines) and pair[1] in " ".join(edit.new_lines)
        ),
        default=0,
    )


def _near(proposals: Sequence[Proposal], situation: Situation) -> Sequence[Proposal]:
    """The nearest below the cursor first, then from the top."""
    row = line_of(situation.document.text, situation.offset)

    def distance(proposal: Proposal) -> tuple[bool, int]:
        return proposal.line < row, proposal.start

    return sorted(proposals, key=distance)
