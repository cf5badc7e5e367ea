"""A tree made to hurt: the worker lives, holds what is to be held, and reads nothing outside."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path

import pytest

from tests.composer_index.files.trees import run_git, write
from tests.support.workers import Worker

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes, sockets, modes")


def function(name: str) -> str:
    return f"def {name}():\n    pass\n"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What must never be read."""
    folder = tmp_path_factory.mktemp("outside")
    write(folder, "canary.py", "folder/canary.py", text=function("canary_of_outside"))
    return folder


@pytest.fixture(scope="module", params=["git", "no git"])
def root(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, outside: Path
) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    if request.param == "git":
        run_git(folder, "init", "-q")
    _links(folder, outside)
    _specials(folder)
    _names(folder)
    _texts(folder)
    _deep(folder)
    return folder


def _links(root: Path, outside: Path) -> None:
    write(root, "plain.py", text=function("plain"))
    write(root, "folder/inner.py", text=function("inner"))
    for name, target in {
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "up": "..",
        "folder/again": "../folder",
        "dead": "nowhere",
        "canary.py": outside / "canary.py",
        "folder/canary": outside / "folder",
        "passwords": "/etc/passwd",
        "zero": "/dev/zero",
        "self": "/proc/self/environ",
        "linked.py": "folder/inner.py",
    }.items():
        (root / name).symlink_to(target)


def _specials(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    with chdir(root), socket.socket(socket.AF_UNIX) as server:  # a socket's path is short
        server.bind("socket.py")
    with suppress(PermissionError):
        os.mknod(root / "device.py", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


NAMES = {
    "line\nbreak.py": "line_break",
    "tab\there.py": "tab_here",
    "-rf.py": "dash_rf",
    " .py": "blank",
    "'quote\".py": "quote",
    "%_*?[a].py": "wildcards",
    ":(top)x.py": "pathspec",
    "é.py": "composed",
    "e\u0301.py": "decomposed",
    "\u202eyp.abc": "",
    "no UTF-8 \udcff\udcfe.py": "no_utf8",
    "half \udced\udca0\udc80.py": "half",
    "Case.py": "upper",
    "case.py": "lower",
    "n" * 252 + ".py": "longest",
    "ignored \\.py": "backslash",
}


def _names(root: Path) -> None:
    for name, symbol in NAMES.items():
        (root / name).write_text(function(f"named_{symbol or 'none'}"))


TEXTS = {
    "utf16_le.py": function("text_utf16_le").encode("utf-16"),
    "utf16_be.py": b"\xfe\xff" + function("text_utf16_be").encode("utf-16-be"),
    "utf16_unmarked.py": function("text_utf16_unmarked").encode("utf-16-le"),
    "latin1.py": ("# é ü ß\n" + function("text_latin1")).encode("latin-1"),
    "utf8_marked.py": b"\xef\xbb\xbf" + function("text_utf8_marked").encode(),
    "mac.py": function("text_mac").replace("\n", "\r").encode(),
    "broken.py": b"def (((((\n" + function("text_broken").encode(),
    "surrogates.py": b"# \xed\xa0\x80\n" + function("text_surrogates").encode(),
    "separators.py": ("# \u2028\x85\x0c\n" + function("text_separators")).encode(),
}
SKIPPED = {
    "line.js": (b"text_huge(" + b"x" * 50_000_000 + b")", "huge"),
    "zeros.py": (bytes(10_000), "binary"),
    "minified.js": (b"function text_minified(){};" * 1000, "minified"),
    "empty.bin": (b"", "binary"),
}


def _texts(root: Path) -> None:
    for name, data in TEXTS.items():
        (root / name).write_bytes(data)
    for name, (data, _) in SKIPPED.items():
        (root / name).write_bytes(data)
    (root / "empty.py").touch()
    with (root / "sparse.py").open("wb") as file:
        file.truncate(1 << 40)


def _deep(root: Path) -> None:
    """Deeper than a path may be long."""
    write(root, "/".join(["deep"] * 100) + "/deep.py", text=function("deep_100"))
    with chdir(root):
        for _ in range(1000):
            Path("below").mkdir()
            os.chdir("below")
        Path("lost.py").write_text(function("deep_1000"))


@pytest.fixture(scope="module")
def shared(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("cache")) as worker:
        worker.open(root)
        worker.until(lambda: worker.status(root)["state"] == "ready", "the index")
        worker.until_current(root)
        yield worker
    # Python's own way cannot remove what is nested so deep.
    subprocess.run(["rm", "-r", root / "below"], check=True)


@pytest.fixture
def worker(shared: Worker) -> Iterator[Worker]:
    yield shared
    assert shared.is_running
    assert not any("is not kept current" in text for text in shared.messages)


def test_what_is_in_the_workspace_is_found(worker: Worker, root: Path):
    found = {each["name"] for each in worker.ask("symbols", query="", limit=1000)}
    assert found == {
        *("plain", "inner", "deep_100"),
        *(f"named_{symbol}" for symbol in NAMES.values() if symbol),
        *(f"text_{name.removesuffix('.py')}" for name in TEXTS),
    }


def test_what_lies_outside_is_not(worker: Worker, root: Path):
    assert not worker.knows("canary_of_outside")
    for query in ("canary of outside", "canary", "root bin bash nologin", "PATH HOME environ"):
        for found in worker.search(query, root, limit=100):
            assert "canary" not in found["text"] + found["path"]
            assert "/bin" not in found["text"]
            assert "PATH=" not in found["text"]


def test_what_is_skipped_is_counted(worker: Worker, root: Path):
    skipped = worker.status(root)["skipped"]
    counted = {"huge": 2, "binary": 2, "minified": 1, "link": 5, "outside": 6, "unreadable": 1}
    assert {reason: num for reason, num in skipped.items() if reason != "special"} == counted
    # Git tells of neither pipes nor sockets.
    assert ("special" in skipped) == (not (root / ".git").exists())


@pytest.mark.parametrize("name", [name for name, symbol in NAMES.items() if symbol], ids=ascii)
def test_a_path_is_told_as_it_is(worker: Worker, root: Path, name: str):
    (found,) = worker.ask("definitions", name=f"named_{NAMES[name]}")
    assert found["path"] == name
    glob = re.sub(r"[\\*?\[]", r"\\\g<0>", name)
    hits = worker.ask("search", query=f"named {NAMES[name]}", limit=3, root=str(root), glob=glob)
    assert {hit["path"] for hit in hits["results"]} <= {name}


def test_all_changes(worker: Worker, root: Path):
    """Of files whose names are odd, seen by the watcher."""
    for name, symbol in NAMES.items():
        (root / name).write_text(function(f"changed_{symbol or 'none'}"))
    worker.until_current(root)
    found = {each["name"] for each in worker.ask("symbols", query="_", limit=1000)}
    assert {name for name in found if name.startswith("named_")} == set()
    assert {f"changed_{symbol}" for symbol in NAMES.values() if symbol} <= found
    _names(root)
    worker.until_current(root)
