"""The engine as a child process that outlives its parent."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_inference.environment import state_dir

_MAX_LOG_BYTES = 4_000_000
_NUM_TAIL_LINES = 6

if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _CREATION_FLAGS = 0


@dataclass(frozen=True, slots=True)
class SpawnedEngine:
    process: "subprocess.Popen[bytes]"
    log: Path
    log_offset: int
    """Where this process's own lines begin."""

    @property
    def exit_status(self) -> int | None:
        """None while it runs. Asking also reaps a process that has ended."""
        return self.process.poll()

    def log_tail(self) -> str:
        """The last lines that it wrote, for an error message."""
        with self.log.open("rb") as file:
            file.seek(self.log_offset)
            text = file.read(_MAX_LOG_BYTES).decode("utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-_NUM_TAIL_LINES:])


def engine_log_path() -> Path:
    """Where the engine process writes its messages."""
    return state_dir() / "engine.log"


def spawn_engine(arguments: Sequence[str]) -> SpawnedEngine:
    """Start `composer-lsp engine` in a session of its own: closing the editor or its terminal does
    not end it. Raises: OSError."""
    log = engine_log_path()
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _rotate(log)
    with log.open("ab") as output:
        log_offset = output.tell()
        process = subprocess.Popen(
            # -P: a module of the workspace must not stand in for one of ours.
            [sys.executable, "-P", "-m", "composer_lsp", "engine", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            start_new_session=True,
            creationflags=_CREATION_FLAGS,
        )
    return SpawnedEngine(process, log, log_offset)


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
