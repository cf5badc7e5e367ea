"""A small server of OpenAI's `/v1/embeddings` and of `/v1/rerank`, whose answers follow from the
words of what it is given, and which fails as it is told to."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

TOPICS = {"money": ("price", "cost", "discount"), "sky": ("forecast", "weather", "tomorrow")}
"""Words that mean the same to this model."""

Failure = tuple[int, str]
"""A status and the message of the error."""


@dataclass
class FakeModels:
    """What the server does; tests change it while it runs."""

    dim: int = 64
    fails: Callable[[dict[str, Any]], Failure | None] = lambda body: None
    """Whether a request's body is refused."""
    spoil: Callable[[list[float]], Any] = lambda vector: vector
    """What becomes of each vector on its way out."""
    spoil_answer: Callable[[Any], Any] = lambda answer: answer
    """What becomes of each whole answer on its way out."""
    write: Callable[[BufferedIOBase], None] | None = None
    """Writes to the connection, headers included, instead of an answer; then it is closed."""
    before_answer: Callable[[dict[str, Any]], None] = lambda body: None
    """Called with each body, in the request's thread."""
    score: Callable[[str, str], Any] = lambda query, text: float(len(text))
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The bodies, in order."""
    priorities: list[str] = field(default_factory=list[str])
    keys: list[str | None] = field(default_factory=list[str | None])
    url: str = ""

    @property
    def texts(self) -> list[str]:
        """All texts that were embedded, in order."""
        return [text for body in self.requests for text in body.get("input", ())]

    def vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dim
        for word in re.findall(r"[a-z]+", text.lower()):
            topic = next((name for name, words in TOPICS.items() if word in words), word)
            digest = hashlib.blake2b(topic.encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "big") % self.dim] += 1.0
        return vector

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if (failure := self.fails(body)) is not None:
            return failure[0], {"error": {"message": failure[1], "code": failure[0]}}
        if path == "/v1/embeddings":
            data = [
                {"object": "embedding", "index": n, "embedding": self.spoil(self.vector(text))}
                for n, text in enumerate(body["input"])
            ]
            # In another order than asked: `index` is what counts.
            return 200, {"object": "list", "model": body["model"], "data": data[::-1]}
        if path == "/v1/rerank":
            results = [
                {"index": n, "relevance_score": self.score(body["query"], text)}
                for n, text in enumerate(body["documents"])
            ]
            results.sort(key=lambda result: result["relevance_score"] or 0, reverse=True)
            return 200, {"model": body["model"], "results": results[: body["top_n"]]}
        return 404, {"error": {"message": f"no {path}"}}


@contextmanager
def model_server(port: int = 0) -> Generator[FakeModels]:
    """Serves until the end of the block, at `url`."""
    models = FakeModels()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            models.requests.append(body)
            models.priorities.append(self.headers["X-Composer-Priority"])
            models.keys.append(self.headers["Authorization"])
            models.before_answer(body)
            status, value = models.answer(self.path, body)
            data = json.dumps(models.spoil_answer(value)).encode()
            try:
                if models.write is not None:
                    self.close_connection = True
                    models.write(self.wfile)
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:
                pass  # whoever asked is gone

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = True

    server = Server(("127.0.0.1", port), Handler)
    models.url = f"http://127.0.0.1:{server.server_port}/v1/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield models
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
