"""Errors out of HTTP responses that are no success, whoever sent them."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from composer_lsp.engine.errors import (
    AuthenticationError,
    EngineError,
    ModelLoadError,
    ModelNotFoundError,
    NotAnEngineError,
    OverloadedError,
    RequestRefusedError,
    ServerFailureError,
)

_MAX_TEXT_CHARS = 300
_TITLE = re.compile(r"(?is)<(title|h1)\b[^>]*>(.*?)</\1>")
_MODEL_CODES = frozenset({"model_not_found", "model_not_available"})


def error_of(
    *, server: str, status: int, body: bytes, model: str = "", key_env: str = ""
) -> EngineError:
    """The error that a response means. `server` is what the user knows it by; `key_env` is the
    environment variable that holds its key, empty when none is configured."""
    error = _error_object(body)
    told = str(error.get("message") or "") if error else ""
    said = _shortened(told) if error else _readable(body)
    code = str(error.get("code") or error.get("type") or "") if error else ""
    detail = f"{server} answered {status}" + (f": {said}" if said else "")
    if status in (401, 403):
        return AuthenticationError(f"{detail}. {_key_advice(key_env)}")
    if code in _MODEL_CODES or (status == 404 and "model" in said.lower()):
        return ModelNotFoundError(detail, model=model)
    if status == 404:
        return NotAnEngineError(f"{detail}. Is this the base URL of an OpenAI-compatible server?")
    if status in (429, 503):
        return OverloadedError(detail)
    if code == "model_load_failed":
        return ModelLoadError(told or detail)  # with a path, which must be whole
    if status >= 500:
        return ServerFailureError(detail)
    return RequestRefusedError(detail, code=code or None)


def error_in_event(server: str, event: Mapping[str, Any]) -> EngineError | None:
    """The error that a server reports inside a stream that began well."""
    error = event.get("error")
    if not error:
        return None
    if isinstance(error, dict):
        fields = cast(dict[str, Any], error)
        error = fields.get("message") or fields
    return ServerFailureError(f"{server}: {_shortened(str(error))}")


def parsed_object(server: str, body: bytes) -> dict[str, Any]:
    """A JSON object. Raises: NotAnEngineError."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NotAnEngineError(
            f"{server} answered something other than a JSON object: {_readable(body) or 'nothing'}"
        )
    return cast(dict[str, Any], value)


def _error_object(body: bytes) -> dict[str, Any] | None:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    fields = cast(dict[str, Any], value)
    error: object = fields.get("error", fields)
    if isinstance(error, dict):
        return cast(dict[str, Any], error)
    return {"message": error}


def _readable(body: bytes) -> str:
    """One line for people: the title of a page, else the beginning of the text."""
    text = body.decode("utf-8", errors="replace")
    title = _TITLE.search(text)
    if title or re.match(r"(?i)\s*<(?:!doctype|html)", text):
        text = re.sub(r"<[^>]*>", " ", title.group(2)) if title else "an HTML page"
    return _shortened(" ".join(html.unescape(text).split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + "…"


def _key_advice(key_env: str) -> str:
    if key_env:
        return f"Check the key in the environment variable {key_env}"
    return "Name the environment variable that holds its key in the setting apiKeyEnv"
