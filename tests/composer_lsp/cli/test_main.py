"""What happens to any command when nobody takes its output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 60.0
COMMANDS = [
    ("doctor", "--no-start"),
    ("doctor", "--no-start", "--json"),
    ("model", "list"),
    ("--help",),
]


def run(arguments: tuple[str, ...], home: Path, stdout: int) -> "subprocess.CompletedProcess[str]":
    folders = {f"COMPOSER_{name}_DIR": str(home / name) for name in ("RUNTIME", "DATA", "STATE")}
    return subprocess.run(
        [sys.executable, "-m", "composer_lsp", *arguments],
        env={**os.environ, **folders},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("arguments", COMMANDS[:-1], ids=" ".join)
def test_a_reader_that_has_gone_ends_it_quietly(home: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(arguments, home, writer)
    os.close(writer)

    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told_in_a_line(home: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(arguments, home, full.fileno())

    assert done.returncode == 2
    assert done.stderr.splitlines() == ["composer-lsp: [Errno 28] No space left on device"]


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes streams")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", [("model", "list"), ()], ids=str)
def test_without_streams_it_is_as_with_empty_ones(
    home: Path, arguments: tuple[str, ...], closed: str
) -> None:
    def code(streams: str) -> int:
        line = f'exec "$0" -m composer_lsp "$@" {streams}'
        folders = {
            f"COMPOSER_{name}_DIR": str(home / name) for name in ("RUNTIME", "DATA", "STATE")
        }
        done = subprocess.run(
            ["sh", "-c", line, sys.executable, *arguments],
            env={**os.environ, **folders},
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.returncode

    assert code(closed) == code(closed.replace("&-", "/dev/null"))
