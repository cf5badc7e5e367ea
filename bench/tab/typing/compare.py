"""Types the same files in front of each client, one after the other, and keeps what was seen."""

import asyncio
import os
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.corpora import source_distribution
from bench.tab.records import Records
from bench.tab.typing.client import Client
from bench.tab.typing.llama_vim import llama_vim
from bench.tab.typing.report import print_report
from bench.tab.typing.server_client import server_client
from bench.tab.typing.simulation import Session, type_file
from bench.tab.typing.texts import Typed, draw

COMPOSER, FIRST_VERSION, LLAMA_VIM = "composer", "first version", "llama.vim"
CLIENTS = (COMPOSER, FIRST_VERSION, LLAMA_VIM)

_FIRST_COMMIT = "f99d028176e20961e0a01f4411896e36690a450c"
"""The last one of the first version: ghost text, without index or judge."""
_REPOSITORY = Path(__file__).parents[3]
_FILES = (
    ("structlog", "25.1.0", "src/structlog", "processors.py"),
    ("marshmallow", "4.0.0", "src/marshmallow", "schema.py"),
    ("tinydb", "4.8.2", "tinydb", "table.py"),
    ("Django", "5.2.8", "django/contrib/admin/static/admin/js", "SelectBox.js"),
)
"""Package, version, folder and file."""


class FirstVersionError(Exception):
    """The first version cannot be had."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    folder: Path
    """What the window has open."""
    path: str


def published_files() -> list[File]:
    """Of source distributions, which pip fetches once."""
    return [
        File(folder=source_distribution(name, version) / folder, path=path)
        for name, version, folder, path in _FILES
    ]


async def compare(
    files: Sequence[File],
    models: Sequence[str],
    clients: Sequence[str],
    *,
    num_chars: int,
    seed: int,
    pace: float,
    records: Path | None,
) -> None:
    """Prints the report. Sessions that `records` holds already are taken from there."""
    known = Records(Session, records and records / "typing.jsonl")
    sessions: list[Session] = []
    for model in models:
        for file in files:
            for client in clients:
                key = f"{client}-{model}-{file.folder.name}-{file.path}-{num_chars}-{seed}-{pace:g}"
                if key not in known:
                    typed = draw(file.folder, file.path, num_chars=num_chars, seed=seed)
                    session = await _session(typed, file.folder, client, model, seed, pace)
                    known.add(key, session)
                sessions.append(known[key])
    print_report(sessions)


async def _session(
    typed: Typed, tree: Path, client: str, model: str, seed: int, pace: float
) -> Session:
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        async with _opened(client, Path(name), model, tree) as opened:
            return await type_file(opened, typed, name=client, model=model, seed=seed, pace=pace)


@asynccontextmanager
async def _opened(client: str, scratch: Path, model: str, tree: Path) -> AsyncGenerator[Client]:
    if client == LLAMA_VIM:
        async with llama_vim(scratch, model) as opened:
            yield opened
        return
    env: Mapping[str, str] = {}
    if client == FIRST_VERSION:
        env = await asyncio.to_thread(_first_version, scratch)
    async with server_client(scratch, model, tree, env=env) as opened:
        yield opened


def _first_version(scratch: Path) -> Mapping[str, str]:
    """The environment in which it runs, unpacked into `scratch`.

    Raises: FirstVersionError.
    """
    archive, tree = scratch / "first.tar", scratch / "first"
    command = ["git", "-C", str(_REPOSITORY), "archive", "-o", str(archive), _FIRST_COMMIT]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise FirstVersionError(
            f"commit {_FIRST_COMMIT[:7]} is not to be had from {_REPOSITORY} ({error}); run in a full "
            f"clone, or leave `{FIRST_VERSION}` out of --client"
        ) from error
    with tarfile.open(archive) as packed:
        packed.extractall(tree, filter="data")
    return {"PYTHONPATH": os.pathsep.join([str(tree), str(tree / "inference")])}
