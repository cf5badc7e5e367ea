"""POST /v1/embeddings, /v1/rerank and /tokenize."""

import base64
import struct
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.errors import invalid, unsupported
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import while_connected
from composer_inference.backends.base import Capability
from composer_inference.priority import Priority


async def embeddings(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    texts = parse.strings(body, "input")
    if not texts:
        raise invalid("input must be a string or a list of strings, none empty", param="input")
    if body.get("dimensions") is not None:
        raise unsupported("dimensions is not supported; leave it out", param="dimensions")
    form = parse.string(body, "encoding_format", "float")
    if form not in ("float", "base64"):
        raise parse.wrong("encoding_format", form, "float or base64")
    model = parse.string(body, "model", "auto")
    priority = parse.read_priority(request, Priority.BACKGROUND)
    vectors = await while_connected(request, service.embed(model, texts, priority))
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": vector if form == "float" else _base64(vector),
        }
        for index, vector in enumerate(vectors)
    ]
    usage = await while_connected(request, _usage(service, model, texts))
    return JSONResponse({"object": "list", "model": model, "data": data, "usage": usage})


async def rerank(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    model, query = parse.string(body, "model", "auto"), parse.string(body, "query")
    documents = parse.strings(body, "documents")
    if not documents:
        raise invalid("documents must be a list of strings, none empty", param="documents")
    top_n = parse.integer(body, "top_n", len(documents), minimum=1)
    priority = parse.read_priority(request, Priority.BACKGROUND)
    scores = await while_connected(request, service.rerank(model, query, documents, priority))
    ranked = sorted(enumerate(scores), key=lambda entry: -entry[1])[:top_n]
    results = [{"index": index, "relevance_score": score} for index, score in ranked]
    return JSONResponse({"model": model, "results": results})


async def tokenize(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    model, content = parse.string(body, "model", "auto"), parse.string(body, "content")
    tokens = await while_connected(request, service.tokenize(model, content))
    return JSONResponse({"tokens": tokens})


def _base64(vector: Sequence[float]) -> str:
    # Little-endian 32-bit floats: what OpenAI's clients ask for unless told otherwise.
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _usage(service: EngineService, model: str, texts: Sequence[str]) -> dict[str, Any] | None:
    """None where the model cannot count tokens."""
    backend = await service.backend(model)
    if Capability.TOKENIZE not in backend.capabilities:
        return None
    num_tokens = sum([len(await service.tokenize(model, text)) for text in texts])
    return {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
