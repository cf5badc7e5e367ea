"""The engine as a child process that outlives its parent."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_inference.environment import state_dir
from composer_lsp.engine.errors import EngineStartError

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
        try:
            with self.log.open("rb") as file:
                file.seek(self.log_offset)
                text = file.read(_MAX_LOG_BYTES).decode("utf-8", errors="replace")
        except OSError:  # Somebody removed it meanwhile.
            return ""
        return "\n".join(text.strip().splitlines()[-_NUM_TAIL_LINES:])


def engine_log_path() -> Path:
    """Where the engine process writes its messages."""
    return state_dir() / "engine.log"


def spawn_engine(arguments: Sequence[str]) -> SpawnedEngine:
    """Start `composer-lsp engine` in a session of its own: closing the editor or its terminal does
    not end it. Raises: EngineStartError."""
    log = engine_log_path()
    try:
        return _spawn(arguments, log)
    except OSError as error:
        raise EngineStartError(
            f"the engine cannot be started, with its log at {log}: {error}; let that be written, "
            "or set COMPOSER_STATE_DIR to a folder of your own"
        ) from error


def _spawn(arguments: Sequence[str], log: Path) -> SpawnedEngine:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _rotate(log)
    with os.fdopen(_open_privately(log), "ab") as output:
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


def _open_privately(log: Path) -> int:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)  # of a file that was there before
    return descriptor


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
