"""A second look at results by a server's model: the order, the deadline, and what a failure costs."""

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from composer_index.embedding.server import ModelServer, ModelServerError, ServedModel
from composer_index.search.rerank import DEPTH, MAX_CHARS, ServedReranker, reranked
from composer_index.search.result import Result
from tests.support.model_server import FakeModels, model_server

LIMIT_S = 60


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


def served(models: FakeModels, timeout_s: float = LIMIT_S) -> ServedReranker:
    at = ServedModel(model="judge", origin="fake", url=models.url, timeout_s=timeout_s)
    return ServedReranker(ModelServer(at))


def with_index(index: Any) -> Callable[[Any], Any]:
    """Changes each of an answer's results."""
    return lambda answer: {"results": [{**item, "index": index} for item in answer["results"]]}


def results(*texts: str) -> list[Result]:
    return [
        Result(
            path=f"f{number}.py",
            start_line=1,
            end_line=1,
            symbol="",
            signature="",
            language="python",
            score=1.0 - number / 100,
            why=(),
            text=text,
        )
        for number, text in enumerate(texts)
    ]


def texts_of(found: list[Result]) -> list[str]:
    return [each.text for each in found]


def test_both_rankings_count(models: FakeModels):
    models.score = lambda query, text: float(text.split(query)[-1])
    found = reranked(served(models), "rank", results("rank 1", "rank 3", "rank 2"))
    assert texts_of(found) == ["rank 3", "rank 1", "rank 2"]
    assert [each.score for each in found] == pytest.approx(
        [1 / 6 + 1 / 5, 1 / 5 + 1 / 7, 1 / 7 + 1 / 6]
    )
    (body,) = models.requests
    assert (body["model"], body["query"], body["top_n"]) == ("judge", "rank", 3)
    assert models.priorities == ["agent"]


def test_of_equals_the_models_choice_comes_first(models: FakeModels):
    found = reranked(served(models), "q", results("a", "bbb"))
    assert texts_of(found) == ["bbb", "a"]


def test_the_first_are_read_and_the_others_stay_behind_them(models: FakeModels):
    models.score = lambda query, text: float(text == f"f{DEPTH - 1}.py \ntext")
    many = results(*["text"] * (DEPTH + 5))
    found = [each.path for each in reranked(served(models), "q", many)]
    assert found.index(f"f{DEPTH - 1}.py") == 4  # 1/34 + 1/5 is between 1/8 + 1/9 and 1/9 + 1/10
    assert found[DEPTH:] == [each.path for each in many[DEPTH:]]
    assert len(models.requests[0]["documents"]) == DEPTH


def test_texts_are_bounded_and_say_where_they_are_from(models: FakeModels):
    reranked(served(models), "q", results("x" * 5000, "y"))
    long, short = models.requests[0]["documents"]
    assert long.startswith("f0.py ")
    assert len(long) == MAX_CHARS
    assert short == "f1.py \ny"


def test_one_result_needs_no_second_look(models: FakeModels):
    assert texts_of(reranked(served(models), "q", results("a"))) == ["a"]
    assert models.requests == []


@pytest.mark.parametrize(
    "change",
    [
        {"fails": lambda body: (404, "no model judge")},  # pyright: ignore[reportUnknownLambdaType]
        {"fails": lambda body: (503, "loading")},  # pyright: ignore[reportUnknownLambdaType]
        {"score": lambda query, text: math.nan},  # pyright: ignore[reportUnknownLambdaType]
        {"score": lambda query, text: None},  # pyright: ignore[reportUnknownLambdaType]
        {"score": lambda query, text: True},  # pyright: ignore[reportUnknownLambdaType]
        {"score": lambda query, text: 10**400},  # pyright: ignore[reportUnknownLambdaType]
        {"spoil_answer": with_index([0])},
        {"spoil_answer": with_index(0)},
        {"spoil_answer": with_index(0.0)},
        {"spoil_answer": with_index(None)},
        {"spoil_answer": with_index(-1)},
    ],
    ids=[
        "no model",
        "loading",
        "not a number",
        "null",
        "boolean",
        "too large",
        "list as index",
        "one index twice",
        "fraction as index",
        "no index",
        "index out of range",
    ],
)
def test_a_failure_leaves_the_order_and_is_not_tried_again_at_once(
    models: FakeModels, change: dict[str, Any]
):
    for name, value in change.items():
        setattr(models, name, value)
    reranker = served(models)
    for _ in range(2):
        assert texts_of(reranked(reranker, "q", results("a", "bbb", "cc"))) == ["a", "bbb", "cc"]
    assert len(models.requests) == 1
    assert "fake" in reranker.server.problem


def test_an_answer_that_forgets_a_text_is_refused(models: FakeModels):
    models.answer = lambda path, body: (  # pyright: ignore[reportAttributeAccessIssue]
        200,
        {"results": [{"index": 0, "relevance_score": 1.0}]},
    )
    with pytest.raises(ModelServerError, match="gave 1 scores for 2 texts"):
        served(models).rerank("q", ["a", "b"])


def test_a_search_waits_no_longer_than_the_deadline(models: FakeModels):
    go_on = threading.Event()

    def wait(body: dict[str, Any]) -> None:
        go_on.wait(LIMIT_S)

    models.before_answer = wait
    reranker = served(models, timeout_s=0.05)
    assert texts_of(reranked(reranker, "q", results("a", "bbb"))) == ["a", "bbb"]
    go_on.set()
    reranker._threads.shutdown()  # pyright: ignore[reportPrivateUsage] - the answer has come
    assert reranker.server.problem == "fake did not rerank within 0.05 s"
