"""The worker fills in a model's vectors while it has nothing else to do."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import FakeModels, model_server
from tests.support.workers import Worker

NUM_FILES = 60
LIMIT_S = 120


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for n in range(NUM_FILES):
        (folder / f"f{n}.py").write_text(f"def do_{n}():\n    return 'what number {n} does'\n")
    return folder


def use(worker: Worker, models: FakeModels, model: str = "tiny") -> None:
    worker.tell(
        "models", embedder={"model": model, "origin": "fake", "url": models.url}, reranker=None
    )


def answers(worker: Worker, root: Path, name: str) -> bool:
    return worker.status(root)["embedder"].startswith(name)


def test_a_worker_that_is_killed_embeds_nothing_twice(
    tmp_path: Path, root: Path, models: FakeModels
):
    has_begun, go_on = threading.Event(), threading.Event()

    def hold(body: dict[str, Any]) -> None:
        if len(models.texts) > NUM_FILES // 2:
            has_begun.set()
            go_on.wait(LIMIT_S)

    models.before_answer = hold
    with Worker(tmp_path / "cache") as worker:
        use(worker, models)
        worker.open(root)
        assert has_begun.wait(LIMIT_S)
        assert not answers(worker, root, "tiny")
        assert worker.status(root)["num_unembedded"] > 0
        assert len(worker.search("what number 7 does", root)) > 0
    answered = {text for body in models.requests[:-1] for text in body["input"]}
    models.before_answer = lambda body: None
    go_on.set()
    models.requests.clear()
    with Worker(tmp_path / "cache") as worker:
        use(worker, models)
        worker.open(root)
        worker.until(lambda: answers(worker, root, "tiny"), "the model")
        assert answered.intersection(models.texts) == {"def main():"}
        assert len(models.texts) < NUM_FILES


def test_what_comes_while_vectors_are_filled_in_is_stored_at_once(
    tmp_path: Path, root: Path, models: FakeModels
):
    has_begun, go_on = threading.Event(), threading.Event()

    def hold(body: dict[str, Any]) -> None:
        if len(models.requests) > 1:
            has_begun.set()
            go_on.wait(LIMIT_S)

    models.before_answer = hold
    with Worker(tmp_path / "cache") as worker:
        use(worker, models)
        worker.open(root)
        assert has_begun.wait(LIMIT_S)
        (root / "new.py").write_text("def rent_bicycle():\n    pass\n")
        worker.tell("changed", paths=[str(root / "new.py")])
        worker.until(lambda: worker.knows("rent_bicycle"), "the new file, while the server works")
        go_on.set()
        worker.until(lambda: answers(worker, root, "tiny"), "the model")
        assert any("rent_bicycle" in text for text in models.texts)


def test_the_engine_is_asked_for_when_it_is_not_there(tmp_path: Path, root: Path):
    with Worker(tmp_path / "cache") as worker:
        engine = {"model": "m", "origin": "the engine", "is_engine": True}
        worker.tell("models", embedder=engine, reranker=None)
        worker.open(root)
        worker.until(lambda: worker.status(root)["model_problem"], "the first try")
        assert [each["method"] for each in worker.told].count("engine_wanted") == 1
        assert worker.messages == []  # nobody need know that it is started


def test_a_server_that_answers_oddly_is_told_and_tried_again(
    tmp_path: Path, root: Path, models: FakeModels
):
    models.spoil_answer = lambda answer: {
        "data": [{**item, "index": [item["index"]]} for item in answer["data"]]
    }
    with Worker(tmp_path / "cache") as worker:
        use(worker, models)
        worker.open(root)
        worker.until(lambda: worker.status(root)["model_problem"], "the first try")
        assert any("which text each is for" in message for message in worker.messages)
        assert worker.search("what number 7 does", root)
        models.spoil_answer = lambda answer: answer
        worker.until(lambda: answers(worker, root, "tiny"), "the model")
        assert worker.status(root)["model_problem"] == ""


def test_two_windows_share_the_work(tmp_path: Path, root: Path, models: FakeModels):
    with Worker(tmp_path / "cache") as first, Worker(tmp_path / "cache") as second:
        for worker in (first, second):
            use(worker, models)
            worker.open(root)
        first.until(lambda: answers(first, root, "tiny"), "the model")
        second.until(lambda: answers(second, root, "tiny"), "the model in the other window")
        texts = [text for text in models.texts if text != "def main():"]
        assert len(texts) == len(set(texts))
        num_texts = len(models.texts)
        assert second.search("what number 7 does", root)
        assert len(models.texts) == num_texts + 1
