"""Errors in the shape of OpenAI's API."""

from starlette.responses import JSONResponse

from composer_inference.api.service import EngineError, ModelLoadError, UnknownModelError
from composer_inference.backends.base import (
    BackendError,
    MissingCapabilityError,
    PromptTooLongError,
)


class ApiError(Exception):
    """What the client is told: a status, a code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def body(self) -> dict[str, object]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status)


def invalid(message: str) -> ApiError:
    return ApiError(400, "invalid_request", message)


def unsupported(message: str) -> ApiError:
    return ApiError(400, "unsupported", message)


def as_api_error(error: ApiError | EngineError | BackendError) -> ApiError:
    match error:
        case ApiError():
            return error
        case UnknownModelError():
            return ApiError(404, "model_not_found", str(error))
        case ModelLoadError():
            return ApiError(500, "model_load_failed", str(error))
        case PromptTooLongError():
            return ApiError(400, "context_length_exceeded", str(error))
        case MissingCapabilityError():
            return unsupported(str(error))
        case _:
            return ApiError(500, "backend_failed", str(error))
