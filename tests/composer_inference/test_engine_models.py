"""Which models the engine holds in memory, and the installed ones that embed and rank, over HTTP."""

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.base import Backend
from composer_inference.engine import Engine
from composer_inference.loader import InstalledLoader, Purpose
from composer_inference.models.catalog import BGE_SMALL_EN, MS_MARCO_MINILM_L12, Companion
from composer_inference.models.installed import InstalledModel, write_manifest
from tests.support.gguf_files import header
from tests.support.onnx_files import write_embedder, write_reranker, write_tokenizer
from tests.support.played import PlayedBackend, PlayedLoader

EMBEDDER, RERANKER = BGE_SMALL_EN.name, MS_MARCO_MINILM_L12.name


class _ManyModels(PlayedLoader):
    """Any name is a model; those that begin with r retrieve."""

    def __init__(self) -> None:
        super().__init__(PlayedBackend())
        self.loaded: list[str] = []

    def available(self) -> dict[str, int]:
        return dict.fromkeys(("g1", "g2", "g3", "r1", "r2", "r3"), 0)

    def purpose(self, name: str) -> Purpose:
        return "retrieve" if name.startswith("r") else "generate"

    async def load(self, name: str) -> Backend:
        self.loaded.append(name)
        return PlayedBackend()


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        pytest.param("g1 g2 r1 r2", "g1 g2 r1 r2", id="two-of-each"),
        pytest.param("g1 g2 r1 g3", "g2 g3 r1", id="a-third-generator"),
        pytest.param("g1 r1 r2 g1 r1 r3", "g1 r1 r3", id="a-third-retriever"),
    ],
)
async def test_what_retrieves_displaces_no_generator(asked: str, held: str):
    engine = Engine(_ManyModels(), on_drain=lambda: None)
    for name in asked.split():
        await engine.backend(name)
    infos = [info.id for info in engine.model_infos() if info.state == "ready"]
    assert sorted(infos) == held.split()
    await engine.close()


def install(data: Path, name: str, unknown: tuple[float, float] = (0, 0)) -> Path:
    """Install a tiny model under the catalogue's name; returns its file. `unknown` is the embedder's
    vector of words that it does not know."""
    folder = data / "models" / name
    folder.mkdir(parents=True)
    path = folder / "model.onnx"
    if name == EMBEDDER:
        write_embedder(path, [unknown] * 4 + [(1, 0), (0, 1), (1, 1)])
    else:
        write_reranker(path, [0] * 4 + [1, -1, 2])
    tokenizer = write_tokenizer(folder / "tokenizer.json").read_bytes()
    companion = Companion(
        file_name="tokenizer.json",
        size_bytes=len(tokenizer),
        sha256=hashlib.sha256(tokenizer).hexdigest(),
    )
    content = path.read_bytes()
    model = InstalledModel(
        name=name,
        path=path,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        companions=(companion,),
        source="a test",
    )
    write_manifest(folder, model)
    return path


@pytest.fixture
def data(tmp_path: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    return tmp_path


@pytest.fixture
async def http(data: Path) -> AsyncIterator[httpx.AsyncClient]:
    engine = Engine(InstalledLoader(threads=1, context_tokens=512), on_drain=lambda: None)
    transport = httpx.ASGITransport(create_app(engine, token=None))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", timeout=60
    ) as client:
        yield client
    await engine.close()


async def test_an_installed_embedder_and_reranker_answer(data: Path, http: httpx.AsyncClient):
    install(data, EMBEDDER)
    install(data, RERANKER)
    body = {"model": EMBEDDER, "input": ["red", "green red red red green green"]}
    answer = (await http.post("/v1/embeddings", json=body)).json()
    vectors = [entry["embedding"] for entry in answer["data"]]
    assert vectors == [pytest.approx([1, 0]), pytest.approx([0.5**0.5, 0.5**0.5])]
    assert answer["usage"] is None

    body = {"model": RERANKER, "query": "red", "documents": ["green", "blue", "red"], "top_n": 2}
    results = (await http.post("/v1/rerank", json=body)).json()["results"]
    assert [result["index"] for result in results] == [1, 2]

    models = {model["id"]: model for model in (await http.get("/v1/models")).json()["data"]}
    assert models[EMBEDDER]["composer"]["capabilities"] == ["embed"]
    assert models[RERANKER]["composer"]["capabilities"] == ["rerank"]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/completions", {"prompt": "x"}, "no generating model"),
        ("/v1/completions", {"prompt": "x", "stream": True}, "no generating model"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, ""),
        ("/v1/rerank", {"query": "x", "documents": ["y"]}, "no reranking model"),
        ("/tokenize", {"content": "x"}, ""),
    ],
)
async def test_an_embedder_refuses_the_rest(
    data: Path, http: httpx.AsyncClient, path: str, body: dict[str, object], says: str
):
    install(data, EMBEDDER)
    answer = await http.post(path, json={"model": EMBEDDER, **body})
    assert answer.status_code == 400, answer.text
    assert says in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("model.onnx", "cannot load .*/model.onnx"),
        ("tokenizer.json", "has vanished: .*json; fetch"),
    ],
)
async def test_a_broken_model_is_told_and_the_engine_lives(
    data: Path, http: httpx.AsyncClient, broken: str, says: str
):
    path = install(data, EMBEDDER).with_name(broken)
    whole = path.read_bytes()
    if broken == "model.onnx":
        path.write_bytes(bytes(len(whole)))
    else:
        path.unlink()
    body = {"model": EMBEDDER, "input": "red"}
    answer = await http.post("/v1/embeddings", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_load_failed")
    assert re.search(says, answer.json()["error"]["message"])
    assert (await http.get("/health")).json()["models"][0]["state"] == "failed"
    path.write_bytes(whole)
    assert (await http.post("/v1/embeddings", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("architecture", "purpose"), [("bert", "retrieve"), ("llama", "generate"), (None, "generate")]
)
def test_what_a_gguf_file_is_for(data: Path, architecture: str | None, purpose: Purpose):
    path = data / "mine.gguf"
    path.write_bytes(header({"general.architecture": architecture}) if architecture else b"junk")
    model = InstalledModel(
        name="mine", path=path, size_bytes=0, sha256="", source="", registered=True
    )
    write_manifest(data / "models" / "mine", model)
    assert InstalledLoader(threads=1, context_tokens=512).purpose("mine") == purpose
