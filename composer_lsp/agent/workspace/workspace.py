"""The seam between the agent and what it works on.

The same agent runs in an editor, in a terminal and in training; each brings a `Workspace` of its
own. Paths are those of `Paths`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.workspace.paths import Paths, Place

MAX_FILE_BYTES = 10_000_000
"""Larger files are data; they are neither read nor edited."""

Severity = Literal["error", "warning", "information", "hint"]


class WorkspaceError(Exception):
    """Something of the workspace is not to be had, or cannot be done; the text says why."""


class ConflictError(WorkspaceError):
    """Files are not what they were when they were read. Nothing was changed."""

    def __init__(self, conflicts: Mapping[str, str]) -> None:
        """`conflicts`: what is in the way, by path."""
        self.conflicts = conflicts
        listed = "; ".join(f"{path}: {why}" for path, why in conflicts.items())
        super().__init__(f"nothing was changed, because of {listed}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """What a linter, a type checker or an editor says of a place."""

    path: str
    line: int
    """1-based."""
    severity: Severity
    message: str
    source: str = ""
    """Who says so: `ruff`, `pyright`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What the user has selected; lines are 1-based, both included."""

    path: str
    start_line: int
    end_line: int
    text: str


class Workspace(Protocol):
    @property
    def paths(self) -> Paths: ...

    async def read(self, place: Place) -> Snapshot:
        """The file as the user sees it: unsaved text comes before the disk's.

        Raises: WorkspaceError for what is no text, too large, or cannot be read.
        """
        ...

    async def files(self) -> Sequence[str]:
        """All paths that are not hidden, in order; files that are only in unsaved buffers too."""
        ...

    async def unsaved(self) -> Mapping[str, str]:
        """The texts that differ from the disk's, by path."""
        ...

    async def diagnostics(self, path: str | None = None) -> Sequence[Diagnostic]:
        """What is known without running anything, of one file or of all."""
        ...

    async def apply(self, changes: Sequence[FileChange], *, label: str) -> None:
        """Make all changes or none. Whole files are compared with what `before` says; hunks whose
        surroundings moved are put where their text is now.

        Raises: ConflictError; WorkspaceError.
        """
        ...


class CodeIndex(Protocol):
    """The index's answers as the worker gives them (`composer_index.worker`): objects with `root`
    and `path`, lines 1-based. Raises: WorkerError."""

    async def search(
        self, query: str, *, limit: int = 10, glob: str | None = None, language: str | None = None
    ) -> Mapping[str, Any]: ...

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]: ...

    async def references(self, name: str, *, limit: int = 100) -> Sequence[Mapping[str, Any]]: ...
