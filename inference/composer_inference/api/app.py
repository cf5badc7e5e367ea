"""The engine's HTTP application: OpenAI's API, and what language servers need beside it."""

import secrets
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from composer_inference.api import state, vectors
from composer_inference.api.chat import chat_completions
from composer_inference.api.completions import completions
from composer_inference.api.errors import ApiError, as_api_error
from composer_inference.api.service import EngineError, EngineService
from composer_inference.api.streaming import ClientGoneError
from composer_inference.backends.base import BackendError

Handler = Callable[[Request], Awaitable[Response]]

_ALWAYS = (("GET", "/health", state.health), ("GET", "/metrics", state.metrics))
_WORK: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v1/models", state.models),
    ("GET", "/v1/models/{name:path}", state.model),
    ("POST", "/v1/completions", completions),
    ("POST", "/v1/chat/completions", chat_completions),
    ("POST", "/v1/embeddings", vectors.embeddings),
    ("POST", "/v1/rerank", vectors.rerank),
    ("POST", "/tokenize", vectors.tokenize),
    ("POST", "/composer/load", state.load),
    ("POST", "/v1/composer/reload", state.reload),
)


def create_app(service: EngineService, *, token: str | None) -> Starlette:
    """`token`: every request must carry it as its bearer token; None for a private socket."""
    routes = [_route(method, path, _guarded(handler, token)) for method, path, handler in _ALWAYS]
    routes += [
        _route(method, path, _guarded(_unless_draining(handler), token))
        for method, path, handler in _WORK
    ]
    routes.append(_route("POST", "/composer/drain", _guarded(state.drain, token)))
    app = Starlette(
        routes=routes, exception_handlers={HTTPException: _http_error, Exception: _failed}
    )
    app.state.service = service
    return app


def _route(method: str, path: str, handler: Handler) -> Route:
    return Route(path, handler, methods=[method])


def _guarded(handler: Handler, token: str | None) -> Handler:
    async def guarded(request: Request) -> Response:
        if token is not None and not _carries(request, token):
            return ApiError(
                401, "invalid_api_key", "the bearer token is missing or wrong"
            ).response()
        try:
            return await handler(request)
        except (ApiError, EngineError, BackendError) as error:
            return as_api_error(error).response()
        except (ClientDisconnect, ClientGoneError):
            return Response(status_code=499)  # Nobody reads it.

    return guarded


def _unless_draining(handler: Handler) -> Handler:
    async def handled(request: Request) -> Response:
        service: EngineService = request.app.state.service
        if service.draining:
            raise ApiError(503, "draining", "this engine is leaving; connect to its successor")
        return await handler(request)

    return handled


def _carries(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "")
    return secrets.compare_digest(given.encode(), f"Bearer {token}".encode())


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 404
    code = "method_not_allowed" if status == 405 else "not_found"
    return ApiError(status, code, f"there is no {request.method} {request.url.path}").response()


async def _failed(_: Request, error: Exception) -> JSONResponse:
    # Starlette raises the error again after this answer, and the server logs it.
    kind = type(error).__name__
    message = f"the engine failed ({kind}); its log tells more"
    return ApiError(500, "internal_error", message).response()
