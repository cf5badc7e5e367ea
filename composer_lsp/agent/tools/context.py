"""What the tools of one run share: the workspace, what was changed, what was read."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from composer_lsp.agent.edits.change_set import ChangeSet, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.ledger import Ledger
from composer_lsp.agent.reads import ReadLog
from composer_lsp.agent.run_commands import RunCommands
from composer_lsp.agent.workspace.paths import IgnoredError, PathError, Place
from composer_lsp.agent.workspace.workspace import CodeIndex, Workspace

_MAX_FOLDERS = 200
"""That a file may lie in; each of them is looked into before a path is used."""
PlanState = Literal["todo", "doing", "done"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStep:
    text: str
    state: PlanState


async def _refuse(question: str) -> bool:
    return False


@dataclass(kw_only=True)
class ToolContext:
    workspace: Workspace
    index: CodeIndex | None = None
    """None: this workspace is not indexed."""
    changes: ChangeSet = field(default_factory=ChangeSet)
    reads: ReadLog = field(default_factory=ReadLog)
    ledger: Ledger = field(default_factory=Ledger)
    max_result_chars: int = 24_000
    """Of one result, by the model's context: some 8,000 tokens."""
    plan: tuple[PlanStep, ...] = ()
    ask_user: Callable[[str], Awaitable[bool]] = _refuse
    """A yes-or-no question; False where nobody can answer."""
    commands: RunCommands | None = None
    """None: no command runs here."""
    apply_pending: Callable[[], Awaitable[None]] | None = None
    """Writes what is staged to the disk, after which it is staged no more, for commands that see
    the disk alone; None: the host cannot. Raises: WorkspaceError."""
    summary: str | None = None
    """What `finish` was called with: the run is over."""
    granted: set[str] = field(default_factory=set[str])
    """Ignored files that the user let be read in this run."""

    async def place(self, path: str) -> Place:
        """Of a path that may be read; of a link, that of the file it leads to. Asks the user about one
        that git ignores. Raises: PathError."""
        place = await self.entry(path)
        # What was staged by the link's own name, its deletion, is told by that name.
        return place if place.path in self.changes else self.workspace.paths.followed(place)

    async def entry(self, path: str) -> Place:
        """As `place`, but of a link itself: what is deleted or moved is the link."""
        place = self.workspace.paths.locate(path)
        if (num := place.relative.count("/")) > _MAX_FOLDERS:
            raise PathError(f"no file lies in {num:,} folders: {path[:100]}…")
        try:
            await asyncio.to_thread(self.workspace.paths.check, place)
        except IgnoredError as error:
            if place.path not in self.granted:
                if not await self.ask_user(f"May {place.path}, which git ignores, be read?"):
                    raise PathError(f"{error}; the user did not allow it") from error
                self.granted.add(place.path)
        return place

    async def snapshot(self, place: Place) -> Snapshot:
        """The file outside of this run. Raises: WorkspaceError."""
        return await self.workspace.read(place)

    async def file(self, place: Place) -> TextFile | None:
        """The file as this run has left it; None: there is none. Raises: WorkspaceError."""
        if place.path in self.changes:
            text = self.changes.text(place.path)
            return None if text is None else TextFile(text=text)
        return (await self.snapshot(place)).file

    def write(self, path: str, snapshot: Snapshot, text: str | None) -> None:
        """Stage a file's new text; None deletes it. Raises: EditError."""
        self.changes.write(path, snapshot, text)
        self.ledger.edited()

    async def files(self) -> list[str]:
        """All paths as this run has left them, in order."""
        found = set(await self.workspace.files())
        for path in self.changes.paths:
            (found.discard if self.changes.text(path) is None else found.add)(path)
        return sorted(found)
