"""What a parent may get wrong: the worker says so or passes over it, and goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from composer_index.store.sql import MAX_GLOB
from tests.support.workers import RefusedError, Worker

SHOP = "def total_price(articles):\n    return sum(a.price for a in articles)\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("cache")) as worker:
        worker.open(root)
        worker.until(lambda: worker.knows("total_price"), "the index")
        yield worker


@pytest.fixture
def worker(shared: Worker) -> Iterator[Worker]:
    """One that knows the shop, and still does when the test is over."""
    messages = len(shared.messages)
    yield shared
    assert shared.is_running
    assert shared.knows("total_price")
    assert shared.messages[messages:] == [], "nothing was rebuilt"


NO_MESSAGES = {
    "garbage": b"garbage",
    "nothing": b"",
    "no object": b"[]",
    "null": b"null",
    "empty object": b"{}",
    "no method": b'{"id": 1, "params": {}}',
    "no parameters": b'{"id": 1, "method": "status"}',
    "a method that is no text": b'{"method": [], "params": {}}',
    "parameters that are no object": b'{"method": "reconcile", "params": []}',
    "a number that is none": b'{"id": [], "method": "status", "params": {}}',
    "a number that is a truth": b'{"id": true, "method": "status", "params": {}}',
    "half": b'{"id": 1, "method": "sta',
    "no UTF-8": b"\xff\xfe\x00",
    "too deep": b"[" * 100_000,
    "too many digits": b"9" * 10_000,
    "fifty megabytes": b"x" * 50_000_000,
}


@pytest.mark.parametrize("line", NO_MESSAGES.values(), ids=list(NO_MESSAGES))
def test_what_is_no_message_is_passed_over(worker: Worker, line: bytes):
    worker.send(line + b"\n")
    assert worker.ask("status")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("unheard", {}),
        ("__init__", {}),
        ("run", {}),
        ("open", {}),
        ("open", {"root": 5}),
        ("open", {"root": "relative"}),
        ("open", {"root": ""}),
        ("open", {"root": "/nul\0byte"}),
        ("open", {"root": "/half a pair \ud800"}),
        ("close", {"root": "/never/opened"}),
        ("changed", {"paths": 5}),
        ("changed", {"paths": [5]}),
        ("changed", {"paths": ["", "/", "..", "relative", "/nul\0byte", "/half \ud800"]}),
        ("buffer", {"path": 5, "text": 5}),
        ("buffer", {"path": "/elsewhere", "text": "def total_price(): pass"}),
        ("pause", {}),
        ("cancel", {"id": 999}),
        ("cancel", {"id": []}),
        ("cancel", {}),
    ],
    ids=repr,
)
def test_a_bad_notification_is_passed_over(
    worker: Worker, root: Path, method: str, params: dict[str, Any]
):
    worker.tell(method, **params)
    assert [each["root"] for each in worker.ask("status")] == [str(root)]


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("unheard", {}, "no method 'unheard'"),
        ("search", {}, "query is a text, not None"),
        ("search", {"query": 5, "limit": 1}, "query is a text, not 5"),
        ("search", {"query": "a"}, "limit is a whole number from 1 to 1000, not None"),
        ("search", {"query": "a", "limit": 0}, "not 0"),
        ("search", {"query": "a", "limit": -1}, "not -1"),
        ("search", {"query": "a", "limit": 1.5}, "not 1.5"),
        ("search", {"query": "a", "limit": True}, "not True"),
        ("search", {"query": "a", "limit": 10**20}, "not 1000000"),
        ("search", {"query": "a", "limit": 1, "glob": 5}, "glob is a text"),
        ("search", {"query": "a", "limit": 1, "glob": "[z-a].py"}, r"'\[z-a\]\.py' is no glob"),
        ("search", {"query": "a", "limit": 1, "language": []}, "language is a text"),
        ("search", {"query": "a", "limit": 1, "root": "/elsewhere"}, "/elsewhere is no folder"),
        ("definitions", {"name": None}, "name is a text"),
        ("references", {"name": "a", "limit": 1.5}, "limit is a whole number"),
        ("symbols", {"query": [], "limit": 1}, "query is a text"),
        ("related", {"path": "/a", "line": 0, "limit": 1}, "line is a whole number"),
        ("related", {"path": 5, "line": 1, "limit": 1}, "path is a text"),
    ],
    ids=repr,
)
def test_a_bad_question_is_refused(worker: Worker, method: str, params: dict[str, Any], told: str):
    with pytest.raises(RefusedError, match=told):
        worker.ask(method, **params)


ODD_TEXTS = [
    *(
        "",
        " ",
        "\0",
        "\n",
        "'",
        '"',
        "%",
        "_",
        "\\",
        "(?",
        "OR",
        "NOT a",
        "+a",
        "\u202e",
        "\U0001f980",
    ),
    *("half \ud800", "no UTF-8 \udcff", "a" * 100_000, "a " * 10_000),
]
ODD_GLOBS = ["]", "}", "{}", "{[,]}", "(", "\\Q", "[\\d]", "[&&]", "[/]", "[\ud800-\udfff]"]
NO_GLOBS = ["[", "[[", "{", "{a,", "\\", "a" * 100_000]


@pytest.mark.parametrize("text", [*ODD_TEXTS, *ODD_GLOBS], ids=lambda text: ascii(text[:20]))
def test_odd_text_finds_nothing_and_harms_nothing(worker: Worker, root: Path, text: str):
    for method, params in {
        "search": {"query": text, "limit": 3},
        "definitions": {"name": text},
        "references": {"name": text, "limit": 3},
        "symbols": {"query": text, "limit": 3},
        "related": {"path": f"{root}/{text}", "line": 1, "limit": 3},
    }.items():
        worker.ask(method, **params)
    if text not in NO_GLOBS and len(text) <= MAX_GLOB:
        worker.ask("search", query="price", limit=3, glob=text)
    if text:
        with pytest.raises(RefusedError, match="language"):
            worker.ask("search", query="price", limit=3, language=text)


@pytest.mark.parametrize("glob", NO_GLOBS, ids=lambda glob: glob[:20])
def test_what_is_no_glob_is_told(worker: Worker, glob: str):
    with pytest.raises(RefusedError, match="is no glob: it"):
        worker.ask("search", query="price", limit=3, glob=glob)


def test_an_answer_is_one_line_whatever_a_file_holds(worker: Worker, root: Path):
    worker.tell("buffer", path=str(root / "shop.py"), text="def total_price():\r\n\v\f\x85\u2028\n")
    (found,) = worker.search("total price", root)
    assert "\u2028" in found["text"]
    worker.tell("buffer", path=str(root / "shop.py"), text=None)


def test_a_thousand_questions_at_once(worker: Worker):
    asked = [worker.begin("search", query=f"price {n}", limit=1) for n in range(1000)]
    for number in asked[::2]:
        worker.tell("cancel", id=number)
    for number in asked[1::2]:
        assert worker.answer(number)["results"]


def test_a_folder_that_is_closed_while_it_is_searched(worker: Worker, root: Path):
    asked = [worker.begin("search", query="price", limit=1) for _ in range(20)]
    worker.tell("close", root=str(root))
    for number in asked:
        worker.answer(number)
    assert worker.ask("status") == []
    worker.open(root)
    worker.until(lambda: worker.knows("total_price"), "the folder to be back")


def test_a_folder_that_is_opened_again_and_again(worker: Worker, root: Path):
    worker.until_current(root)
    process = psutil.Process(worker.process.pid)
    for _ in range(20):
        worker.open(root)
    worker.until(lambda: worker.knows("total_price"), "the folder to be back")
    num_files = process.num_fds()
    for _ in range(20):
        worker.open(root)
    worker.until(lambda: worker.knows("total_price"), "the folder to be back")
    worker.until(lambda: process.num_fds() < num_files + 10, "files to be closed")
    assert len(worker.ask("status")) == 1


def test_the_input_may_end_in_the_middle_of_a_message(tmp_path: Path, root: Path):
    with Worker(tmp_path / "cache") as worker:
        worker.open(root)
        worker.send(json.dumps({"id": 1, "method": "search"}).encode()[:-5])
        worker.close()
        assert worker.process.returncode == 0
