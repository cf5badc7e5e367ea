"""One application of changes at a time, and an editor that answers late or never."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from composer_lsp.agent.workspace.workspace import WorkspaceError

ANSWER_LIMIT_S = 60.0
"""An editor that has not answered by then is not waited for, but in a review: there a user answers."""
TURN_LIMIT_S = 15.0
"""So long an application waits for the one before it."""

_Result = TypeVar("_Result")


class Turn:
    """One application: until it begins to change something it can be cancelled, and then it goes to
    its end, whoever still waits for it."""

    def __init__(self, answer_limit_s: float) -> None:
        self._answer_limit_s = answer_limit_s
        self._given_up = asyncio.get_running_loop().create_future()
        self.label: str | None = None
        """None: nothing was begun."""

    def begin(self, label: str, *, is_limited: bool) -> None:
        """`is_limited`: the editor must answer in time."""
        self.label = label
        if is_limited:
            self.limit()

    def limit(self) -> None:
        """From now on the editor must answer in time."""
        asyncio.get_running_loop().call_later(self._answer_limit_s, self.give_up)

    def give_up(self) -> None:
        """Wait for the editor no longer."""
        if not self._given_up.done():
            self._given_up.set_result(None)

    async def answered(self, applying: "asyncio.Task[None]") -> bool:
        """False: it was given up before. Raises: as `applying`."""
        await asyncio.wait([applying, self._given_up], return_when=asyncio.FIRST_COMPLETED)
        if not applying.done():
            return False
        applying.result()
        return True


class Turns:
    """Event loop only."""

    def __init__(
        self, log: Callable[[str], None], *, answer_limit_s: float, turn_limit_s: float
    ) -> None:
        """`log` tells of failures that nobody waits for any more."""
        self._log = log
        self._answer_limit_s = answer_limit_s
        self._turn_limit_s = turn_limit_s
        self._lock = asyncio.Lock()
        self._turn: Turn | None = None
        """The one that goes on."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """Referred to until their ends."""

    async def take(self, doing: Callable[[Turn], Coroutine[Any, Any, _Result]]) -> _Result:
        """After the one before it. Raises: WorkspaceError where that one does not end; as `doing`."""
        turn = Turn(self._answer_limit_s)
        task = self.started(self._after_the_last(turn, doing))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if turn.label is None:
                task.cancel()
            else:
                turn.limit()
                task.add_done_callback(self.tell_failure)
            raise

    def give_up(self) -> bool:
        """Wait no longer for what the editor was sent; whether anything was waited for."""
        if self._turn is None or self._turn.label is None:
            return False
        self._turn.give_up()
        return True

    async def _after_the_last(
        self, turn: Turn, doing: Callable[[Turn], Coroutine[Any, Any, _Result]]
    ) -> _Result:
        try:
            async with asyncio.timeout(self._turn_limit_s):
                await self._lock.acquire()
        except TimeoutError as error:
            label = self._turn.label if self._turn else None
            raise WorkspaceError(
                f"the editor has not answered yet whether it made the changes of “{label}”; it may "
                "be asking you"
                if label
                else "other changes are still being made; try it again"
            ) from error
        self._turn = turn
        try:
            return await doing(turn)
        finally:
            self._turn = None
            self._lock.release()

    def started(self, doing: Coroutine[Any, Any, _Result]) -> "asyncio.Task[_Result]":
        task = asyncio.ensure_future(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell_failure(self, task: "asyncio.Task[Any]") -> None:
        """Of what nobody waits for."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(str(error))
