"""The seam to what runs linters: `CommandRunner` in the product, a plain process in tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class CheckResult(Protocol):
    @property
    def exit_code(self) -> int | None:
        """None: it was ended by a signal or by the time limit."""
        ...

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        ...

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        ...


class RunsChecks(Protocol):
    @property
    def why_not_staged(self) -> str | None:
        """Why a command sees the disk alone; None if it sees what is staged."""
        ...

    async def check(
        self,
        command: Sequence[str],
        cwd: Path,
        /,
        *,
        timeout_s: float,
        staged: Mapping[Path, bytes | None],
    ) -> CheckResult:
        """Run a program without asking, with no network, and drop what it changes. `staged`: what
        files are to be for it, by absolute path; None: there is none. Raises: SandboxError,
        RefusedError."""
        ...
