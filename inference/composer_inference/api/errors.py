"""Errors in the shape of OpenAI's API."""

from starlette.responses import JSONResponse

from composer_inference.api.service import EngineError, ModelLoadError, UnknownModelError
from composer_inference.backends.base import (
    BackendError,
    MissingCapabilityError,
    PromptTooLongError,
    RejectedRequestError,
)
from composer_inference.chat.template import ChatTemplateError


class ApiError(Exception):
    """What the client is told: a status, a code for programs, and a message for people."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        """`param` is the request's field at fault."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param

    def body(self) -> dict[str, object]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status)


def invalid(message: str, *, param: str | None = None) -> ApiError:
    return ApiError(400, "invalid_request", message, param=param)


def unsupported(message: str, *, param: str | None = None) -> ApiError:
    return ApiError(400, "unsupported", message, param=param)


def as_api_error(error: ApiError | EngineError | BackendError) -> ApiError:
    match error:
        case ApiError():
            return error
        case UnknownModelError():
            return ApiError(404, "model_not_found", str(error), param="model")
        case ModelLoadError():
            return ApiError(500, "model_load_failed", str(error), param="model")
        case PromptTooLongError():
            return ApiError(400, "context_length_exceeded", str(error))
        case ChatTemplateError():
            return ApiError(400, "chat_template_failed", str(error), param="messages")
        case MissingCapabilityError():
            return unsupported(str(error))
        case RejectedRequestError():
            return invalid(str(error))
        case _:
            return ApiError(500, "backend_failed", str(error))
