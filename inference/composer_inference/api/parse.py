"""Requests as typed values: every field checked, every complaint naming its field."""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, cast

from starlette.requests import Request

from composer_inference.api.errors import ApiError, invalid, unsupported
from composer_inference.backends.base import SamplingParams
from composer_inference.chat.schema import SchemaError, check_schema
from composer_inference.priority import Priority

_T = TypeVar("_T", int, None)

MAX_BODY_BYTES = 16 * 2**20
MAX_STOPS = 16
MAX_CHOICES = 16

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "suffix": ("",),
    "echo": (False,),
    "logit_bias": ({},),
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}
"""Fields of OpenAI's API that are not honoured, with the values that ask for nothing."""

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


async def read_body(request: Request) -> dict[str, Any]:
    """The request's JSON object. Raises: ApiError."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, "too_large", f"the body exceeds {MAX_BODY_BYTES} bytes")
    value = _parse_json(bytes(body))
    if not isinstance(value, dict):
        raise invalid("the body is no JSON object")
    return cast(dict[str, Any], value)


def read_priority(request: Request, default: Priority = Priority.AGENT) -> Priority:
    """The header `X-Composer-Priority`. Raises: ApiError."""
    word = request.headers.get("x-composer-priority", default.name)
    try:
        return Priority[word.upper()]
    except KeyError:
        names = ", ".join(priority.name.lower() for priority in Priority)
        raise invalid(f"X-Composer-Priority is {word!r} and must be one of {names}") from None


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Raises: ApiError for a field that asks for what this engine does not do."""
    for name, neutral in _NEUTRAL.items():
        value = body.get(name)
        if value is not None and value not in neutral:
            raise unsupported(f"{name}={_shown(value)} is not supported; leave it out", param=name)


def read_sampling(
    body: Mapping[str, Any], *, max_tokens: int, num_logprobs: int = 0
) -> SamplingParams:
    """The sampling fields. `max_tokens` is the default. Raises: ApiError."""
    return SamplingParams(
        max_tokens=integer(body, "max_tokens", max_tokens, minimum=0),
        temperature=number(body, "temperature", 0.0, 0, 2),
        top_p=number(body, "top_p", 1.0, 0, 1),
        top_k=integer(body, "top_k", 0, minimum=0),
        min_p=number(body, "min_p", 0.0, 0, 1),
        repeat_penalty=number(body, "repeat_penalty", 1.0, 0, 10),
        frequency_penalty=number(body, "frequency_penalty", 0.0, -2, 2),
        presence_penalty=number(body, "presence_penalty", 0.0, -2, 2),
        seed=integer(body, "seed", None, minimum=0),
        stop=strings(body, "stop", max_items=MAX_STOPS),
        num_logprobs=num_logprobs,
        ignore_eos=boolean(body, "ignore_eos"),
    )


def read_num_choices(body: Mapping[str, Any]) -> int:
    """The field `n`. Raises: ApiError."""
    return integer(body, "n", 1, minimum=1, maximum=MAX_CHOICES)


def wants_usage_event(body: Mapping[str, Any]) -> bool:
    """`stream_options.include_usage`. Raises: ApiError."""
    return boolean(dictionary(body, "stream_options") or {}, "include_usage")


def string(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name)
    value = default if value is None else value
    if not isinstance(value, str):
        raise wrong(name, value, "a string")
    return value


def boolean(body: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise wrong(name, value, "true or false")
    return value


def number(
    body: Mapping[str, Any], name: str, default: float, minimum: float, maximum: float
) -> float:
    value = body.get(name)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not minimum <= value <= maximum:
        raise wrong(name, value, f"a number from {minimum:g} to {maximum:g}")
    return float(value)


def integer(
    body: Mapping[str, Any], name: str, default: _T, *, minimum: int, maximum: int = 2**31 - 1
) -> int | _T:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise wrong(name, value, f"a whole number from {minimum} to {maximum}")
    return value


def strings(body: Mapping[str, Any], name: str, *, max_items: int | None = None) -> tuple[str, ...]:
    """One string or a list of them, as a tuple; empty if the field is missing."""
    value = body.get(name)
    values = cast(
        list[object], [] if value is None else value if isinstance(value, list) else [value]
    )
    if not all(isinstance(item, str) and item for item in values):
        raise wrong(name, value, "a string or a list of strings, none empty")
    if max_items is not None and len(values) > max_items:
        raise invalid(
            f"{name} has {len(values)} strings and may have {max_items} at most", param=name
        )
    return tuple(cast(list[str], values))


def dictionary(body: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise wrong(name, value, "an object")
    return cast("dict[str, Any] | None", value)


def text(path: str, content: object) -> str:
    """A message's or a prediction's content: text, or parts of text. Raises: ApiError."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast(list[object], content if isinstance(content, list) else [content])
    texts: list[str] = []
    for part in parts:
        fields = cast(dict[str, Any], part if isinstance(part, dict) else {})
        if fields.get("type") != "text" or not isinstance(fields.get("text"), str):
            raise wrong(path, content, "text, or a list of text parts")
        texts.append(fields["text"])
    return "".join(texts)


def read_prediction(body: Mapping[str, Any]) -> str | None:
    """The field `prediction`: what the answer mostly repeats. Raises: ApiError."""
    value = dictionary(body, "prediction")
    if value is None:
        return None
    if value.get("type") != "content" or not value.get("content"):
        raise wrong("prediction", value, 'of the form {"type": "content", "content": "…"}')
    return text("prediction.content", value["content"])


def schema(value: dict[str, Any], path: str, *, relax: bool) -> dict[str, Any]:
    """The JSON schema that stands at `path`, as it is to be enforced. Raises: ApiError."""
    try:
        return check_schema(value, relax=relax)
    except SchemaError as error:
        param = path.partition(".")[0].partition("[")[0]
        raise unsupported(f"{path}: {error}", param=param) from error


def wrong(name: str, value: Any, allowed: str) -> ApiError:
    """An error that names the field, its value and what is allowed."""
    return invalid(f"{name} is {_shown(value)} and must be {allowed}", param=name)


def _shown(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else shown[:79] + "…"


def _parse_json(body: bytes) -> object:
    try:
        value: object = json.loads(body, parse_constant=_refuse_constant)
        # Half of a surrogate pair is JSON and no text that could be encoded for a model.
        if _SURROGATE_ESCAPE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise invalid("the body holds half of a surrogate pair, which is no text") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None
    except ValueError as error:
        raise invalid(f"the body is no JSON: {error}") from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
