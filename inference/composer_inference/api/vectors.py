"""POST /v1/embeddings, /v1/rerank and /tokenize."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from composer_inference.api import parse
from composer_inference.api.errors import invalid
from composer_inference.api.service import EngineService
from composer_inference.api.streaming import while_connected
from composer_inference.priority import Priority


async def embeddings(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    texts = parse.strings(body, "input")
    if not texts:
        raise invalid("input must be a string or a list of strings, none empty")
    model = parse.string(body, "model", "auto")
    priority = parse.read_priority(request, Priority.BACKGROUND)
    vectors = await while_connected(request, service.embed(model, texts, priority))
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    return JSONResponse({"object": "list", "model": model, "data": data})


async def rerank(request: Request) -> Response:
    service: EngineService = request.app.state.service
    body = await parse.read_body(request)
    model, query = parse.string(body, "model", "auto"), parse.string(body, "query")
    documents = parse.strings(body, "documents")
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
    return JSONResponse({"tokens": await service.tokenize(model, content)})
