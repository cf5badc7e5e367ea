"""`composer-lsp index` with a server's models."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.composer_lsp.cli.test_index import run
from tests.support.model_server import FakeModels, model_server


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    for name in ("alpha", "beta"):
        text = f'def fetch_{name}(city):\n    """Ask the weather service of {name}."""\n'
        (root / f"{name}.py").write_text(
            f"{text}    answer = service.get(city)\n    return answer\n"
        )
    return root


def test_build_fills_in_the_vectors_and_search_asks_the_model(workspace: Path, models: FakeModels):
    embedder = ("--embedder", "tiny", "--embedder-url", models.url)
    told = run(workspace, "search", *embedder, "ask the forecast").stderr
    assert "tiny has no vectors yet, so the table answers; make them by: composer-lsp" in told
    status = json.loads(run(workspace, "build", "--json", *embedder).stdout)
    assert status["embedder"] == f"tiny by {models.url}, recipe 1: 64"
    assert status["num_unembedded"] == 0
    num_texts = len(models.texts)
    found = run(workspace, "search", *embedder, "ask the forecast")
    assert found.stdout.startswith(("alpha.py", "beta.py"))
    assert found.stderr == ""
    assert models.texts[num_texts:] == ["def main():", "ask the forecast"]
    without = run(workspace, "search", "ask the weather")  # The table's vectors are still there.
    assert without.stdout.splitlines()[0].endswith("meaning)")


@pytest.mark.parametrize("best", ["alpha", "beta"])
def test_search_reranks(workspace: Path, models: FakeModels, best: str):
    models.score = lambda query, text: float(best in text)
    reranker = ("--reranker", "judge", "--reranker-url", models.url)
    found = run(workspace, "search", "--json", *reranker, "weather service")
    assert json.loads(found.stdout)[0]["path"] == f"{best}.py"


def test_eval_takes_the_models(workspace: Path, models: FakeModels):
    names = ("--embedder", "tiny", "--reranker", "judge")
    urls = ("--embedder-url", models.url, "--reranker-url", models.url)
    done = run(workspace, "eval", "--json", "--queries", "2", *names, *urls)
    assert json.loads(done.stdout)["functions"][0]["quality"]["num_questions"] == 2
    assert {body["model"] for body in models.requests} == {"tiny", "judge"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--embedder-url", "http://localhost:1/v1"], "--embedder-url needs --embedder"),
        (["build", "--embedder", "a", "--embedder-url", "nowhere"], "the URL 'nowhere' is not"),
        (["build", "--embedder", "a", "--embedder-url", "http://localhost:9/v1"], "cannot be"),
        (
            [
                "search",
                "--reranker=a",
                "--reranker-url=http://b/v1",
                "--reranker-key-env=NONE",
                "x",
            ],
            "environment variable NONE",
        ),
    ],
    ids=["no model", "no URL", "no server", "no key"],
)
def test_models_that_cannot_be_used(workspace: Path, arguments: list[str], message: str):
    done = run(workspace, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
