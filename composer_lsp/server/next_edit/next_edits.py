"""What was proposed in a window, and what became of it."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import unquote

from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.server.agent.diagnostics import Known
from composer_lsp.server.imports import import_next_edit
from composer_lsp.server.latest import Latest, SupersededError

if TYPE_CHECKING:
    from composer_lsp.next_edit.proposal import Proposal
    from composer_lsp.server.session import Session

_MAX_GIVEN = 32
_MAX_DISMISSED = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    document: DocumentSnapshot
    offset: int
    is_invoked: bool = False
    """The user has asked for it by a key."""
    in_document_only: bool = False
    diagnostics: Sequence[Known] = ()
    """Empty: those that are known of the document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    id: str
    proposal: "Proposal"

    @property
    def version(self) -> int | None:
        """Of its document; None of a file that is not open."""
        version = self.proposal.document.version
        return version if version >= 0 else None


class NextEdits:
    """Event loop only."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._running: Latest[Proposal | None] = Latest()
        self._given: OrderedDict[str, Given] = OrderedDict()
        self._dismissed: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._numbers = count(1)
        self.counts = {"shown": 0, "accepted": 0, "dismissed": 0}

    async def find(self, request: Request) -> Given | None:
        """The next edit, None where there is none.

        Raises: SupersededError if a newer request came or the document changed meanwhile.
        """
        # Two plugins may ask in their own ways at the same time.
        key = _key(request.document.uri, in_document_only=request.in_document_only)
        task = self._running.start(key, self._search(request))
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
        proposal = self._running.result(task)
        if proposal is None:
            return None
        if not self._is_current(request.document) or not self._is_current(proposal.document):
            raise SupersededError
        given = Given(id=f"next-edit-{next(self._numbers)}", proposal=proposal)
        self._given[given.id] = given
        if len(self._given) > _MAX_GIVEN:
            self._given.popitem(last=False)
        return given

    def end(self, uri: str) -> None:
        """The document changed or closed."""
        for in_document_only in (True, False):
            self._running.end(_key(uri, in_document_only=in_document_only))

    def end_all(self) -> None:
        self._running.end_all()

    def on_shown(self, given_id: str) -> None:
        if given_id in self._given:
            self.counts["shown"] += 1

    def on_accepted(self, given_id: str) -> bool:
        """Whether it was one of ours that nothing was said of yet."""
        is_known = self._given.pop(given_id, None) is not None
        self.counts["accepted"] += is_known
        return is_known

    def on_dismissed(self, given_id: str) -> bool:
        """What follows from the same change is not proposed again."""
        given = self._given.pop(given_id, None)
        if given is None:
            return False
        self.counts["dismissed"] += 1
        self._dismissed[given.proposal.change] = None
        if len(self._dismissed) > _MAX_DISMISSED:
            self._dismissed.popitem(last=False)
        return True

    def _is_current(self, document: DocumentSnapshot) -> bool:
        """A file that was read from the disk has to be unopened still."""
        now = self._session.documents.find(document.uri)
        return now.version == document.version if now is not None else document.version < 0

    async def _search(self, request: Request) -> "Proposal | None":
        if self._session.switches.is_snoozed and not request.is_invoked:
            return None
        module = await asyncio.to_thread(import_next_edit)
        dismissed = () if request.is_invoked else tuple(self._dismissed)
        found: Proposal | None = await module.search(self._session, request, dismissed)
        return found


def _key(uri: str, *, in_document_only: bool) -> str:
    return f"{unquote(uri)}{' here' if in_document_only else ''}"
