"""Which linters look at which files, and from where."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_index.languages import language_of
from composer_lsp.agent.checks.configured import find_interpreter, find_program, up_to
from composer_lsp.agent.checks.linters import Linter
from composer_lsp.agent.workspace.paths import Place

_MAX_FILES = 40
"""Of one linter at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One linter in one folder."""

    linter: Linter
    program: str
    folder: Path
    places: tuple[Place, ...]
    """The files to look at."""
    interpreter: str | None

    def argv(self, places: Iterable[Place]) -> list[str]:
        linter = self.linter
        python = [linter.python_option, self.interpreter] if linter.python_option else []
        names = [os.path.relpath(place.absolute, self.folder) for place in places]
        targets: Mapping[str, Sequence[str]] = {
            "files": [f"./{name}" if name.startswith("-") else name for name in names],
            "folders": sorted({f"./{os.path.dirname(name)}" for name in names}),  # noqa: PTH120
            "project": [],
        }
        return [
            self.program,
            *linter.args,
            *(each for each in python if self.interpreter and each),
            *targets[linter.target],
        ]


def plan(linters: Sequence[Linter], places: Sequence[Place]) -> list[Job]:
    """The linters that are configured for some of the files, and whose program is there. Looks at
    the disk: call it in a thread."""
    configured: dict[tuple[str, Path], bool] = {}

    def nearest(linter: Linter, place: Place) -> Path | None:
        for folder in up_to(Path(place.root), Path(place.absolute).parent):
            key = linter.name, folder
            if key not in configured:
                configured[key] = linter.is_configured(folder)
            if configured[key]:
                return folder
        return None

    grouped: dict[tuple[int, Path], list[Place]] = {}
    for place in places:
        language = language_of(place.relative, b"").id
        for number, linter in enumerate(linters):
            if language in linter.languages and (folder := nearest(linter, place)) is not None:
                grouped.setdefault((number, folder), []).append(place)
    jobs = (_job(linters[number], folder, some) for (number, folder), some in grouped.items())
    return [job for job in jobs if job is not None]


def _job(linter: Linter, folder: Path, places: Sequence[Place]) -> Job | None:
    root = Path(places[0].root)
    program = find_program(linter.program, folder, root)
    if program is None:
        return None
    return Job(
        linter=linter,
        program=program,
        folder=folder,
        places=tuple(places[:_MAX_FILES]),
        interpreter=find_interpreter(folder, root) if linter.python_option else None,
    )
