"""GET /health, /metrics and /v1/models; POST /composer/load, /composer/drain and
/v1/composer/reload."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from composer_inference.api import parse
from composer_inference.api.service import EngineService, ModelInfo, UnknownModelError
from composer_inference.api.streaming import while_connected

API_VERSION = 1
"""Raised when a language server of another version could not use this engine."""


def _service(request: Request) -> EngineService:
    return request.app.state.service


async def health(request: Request) -> Response:
    state = _service(request).health()
    models = [{"id": info.id, "state": info.state, "error": info.error} for info in state.models]
    return JSONResponse(
        {
            "status": state.status,
            "version": state.version,
            "api": API_VERSION,
            "pid": state.pid,
            "threads": state.threads,
            "models": models,
        }
    )


async def metrics(request: Request) -> Response:
    return PlainTextResponse(
        _service(request).metrics(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def models(request: Request) -> Response:
    data = [_model(info) for info in _service(request).model_infos()]
    return JSONResponse({"object": "list", "data": data})


async def model(request: Request) -> Response:
    name = request.path_params["name"]
    infos = _service(request).model_infos()
    found = next((info for info in infos if info.id == name), None)
    if found is None:
        raise UnknownModelError(name, [info.id for info in infos])
    return JSONResponse(_model(found))


async def load(request: Request) -> Response:
    body = await parse.read_body(request)
    # The name that `auto` means here: clients choose the prompt's template by it.
    model = _service(request).resolve(parse.string(body, "model", "auto"))
    await while_connected(request, _service(request).backend(model))
    return JSONResponse({"model": model, "state": "ready"})


async def reload(request: Request) -> Response:
    body = await parse.read_body(request)
    model, path = parse.string(body, "model", "auto"), Path(parse.string(body, "path"))
    if not path.is_absolute():
        raise parse.wrong("path", str(path), "absolute: the engine runs in a folder of its own")
    version = await while_connected(request, _service(request).reload(model, path))
    return JSONResponse({"weights_version": version})


async def drain(request: Request) -> Response:
    _service(request).drain()
    return JSONResponse({"status": "draining"}, 202)


def _model(info: ModelInfo) -> dict[str, object]:
    return {
        "id": info.id,
        "object": "model",
        "created": 0,
        "owned_by": "composer",
        "composer": {
            "state": info.state,
            "error": info.error,
            "size_bytes": info.size_bytes,
            "context_tokens": info.context_tokens,
            "capabilities": sorted(capability.value for capability in info.capabilities),
        },
    }
