"""What a request to /v1/chat/completions asks for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from composer_inference.api import parse
from composer_inference.api.errors import invalid, unsupported
from composer_inference.backends.base import SamplingParams
from composer_inference.chat.decode import CallRules, ToolChoice
from composer_inference.chat.messages import ToolArguments
from composer_inference.chat.tools import Tools

MAX_LOGPROBS = 20
MAX_TOKENS = 2**31 - 1
"""The default: as many as the context holds."""

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRequest:
    model: str
    messages: Sequence[Mapping[str, Any]]
    """For a template: contents are texts, arguments of past calls are objects."""
    tools: Tools
    choice: ToolChoice
    rules: CallRules
    sampling: SamplingParams
    json_schema: dict[str, Any] | None
    prediction: str | None
    num_logprobs: int | None
    """Alternatives to report for each token; None reports no log-probabilities."""
    num_choices: int
    returns_token_ids: bool
    returns_router_choices: bool

    @property
    def may_call(self) -> bool:
        return bool(self.tools) and self.choice != "none"


def read_chat_request(body: Mapping[str, Any]) -> ChatRequest:
    """Raises: ApiError."""
    parse.refuse_unsupported(body)
    tools = _read_tools(body)
    choice, only = _read_choice(body, tools)
    num_logprobs = _read_num_logprobs(body)
    chat = ChatRequest(
        model=parse.string(body, "model", "auto"),
        messages=_read_messages(body),
        tools=tools,
        choice=choice,
        rules=CallRules(
            required=choice == "required",
            only=only,
            parallel=parse.boolean(body, "parallel_tool_calls", default=True),
        ),
        sampling=_read_sampling(body, num_logprobs),
        json_schema=_read_format(body),
        prediction=parse.read_prediction(body),
        num_logprobs=num_logprobs,
        num_choices=parse.read_num_choices(body),
        returns_token_ids=parse.boolean(body, "return_token_ids"),
        returns_router_choices=parse.boolean(body, "return_router_choices"),
    )
    if chat.may_call and chat.json_schema is not None:
        raise unsupported(
            "response_format cannot be combined with tools; set tool_choice to none",
            param="response_format",
        )
    if chat.may_call and chat.returns_router_choices:
        raise unsupported(
            "return_router_choices cannot be combined with tools, which are decoded in several parts",
            param="return_router_choices",
        )
    return chat


def _read_sampling(body: Mapping[str, Any], num_logprobs: int | None) -> SamplingParams:
    names = ("max_completion_tokens", "max_tokens")
    limit = next((name for name in names if body.get(name) is not None), "max_tokens")
    max_tokens = parse.integer(body, limit, MAX_TOKENS, minimum=0)
    return parse.read_sampling(
        {**body, "max_tokens": max_tokens},
        max_tokens=MAX_TOKENS,
        num_logprobs=0 if num_logprobs is None else max(1, num_logprobs),
    )


def _read_num_logprobs(body: Mapping[str, Any]) -> int | None:
    num_top = parse.integer(body, "top_logprobs", None, minimum=0, maximum=MAX_LOGPROBS)
    if parse.boolean(body, "logprobs"):
        return num_top or 0
    if num_top is not None:
        raise parse.wrong("logprobs", False, "true where top_logprobs is set")
    return None


def _read_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    value = body.get("messages")
    if not isinstance(value, list) or not value:
        raise parse.wrong("messages", value, "a list of at least one message")
    return [
        _read_message(f"messages[{index}]", item)
        for index, item in enumerate(cast(list[object], value))
    ]


def _read_message(path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise parse.wrong(path, value, "an object")
    fields = cast(dict[str, Any], value)
    role = fields.get("role")
    if role not in _ROLES:
        raise parse.wrong(f"{path}.role", role, f"one of {', '.join(_ROLES)}")
    message: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": parse.text(f"{path}.content", fields.get("content")),
    }
    if (calls := fields.get("tool_calls")) is not None:
        if not isinstance(calls, list):
            raise parse.wrong(f"{path}.tool_calls", calls, "a list")
        message["tool_calls"] = [
            _read_past_call(f"{path}.tool_calls[{index}]", call)
            for index, call in enumerate(cast(list[object], calls))
        ]
    kept = {name: fields[name] for name in ("name", "tool_call_id") if fields.get(name)}
    return {**message, **kept}


def _read_past_call(path: str, value: object) -> dict[str, Any]:
    call = cast(dict[str, Any], value if isinstance(value, dict) else {})
    function = cast(dict[str, Any], call.get("function") or {})
    name, arguments = function.get("name"), function.get("arguments", "{}")
    if not isinstance(name, str):
        raise parse.wrong(
            path, value, 'a call: {"id": …, "type": "function", "function": {"name": …}}'
        )
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        raise parse.wrong(f"{path}.function.arguments", function.get("arguments"), "a JSON object")
    written = ToolArguments(cast(dict[str, Any], arguments))
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": name, "arguments": written},
    }


def _read_tools(body: Mapping[str, Any]) -> Tools:
    value = body.get("tools")
    if value is not None and not isinstance(value, list):
        raise parse.wrong("tools", value, "a list")
    schemas: dict[str, dict[str, Any]] = {}
    definitions = cast(list[Any], value or [])
    for index, tool in enumerate(definitions):
        name, schema = _read_tool(f"tools[{index}]", tool)
        if name in schemas:
            raise invalid(f"tools names {name} twice", param="tools")
        schemas[name] = schema
    return Tools(definitions, schemas)


def _read_tool(path: str, value: object) -> tuple[str, dict[str, Any]]:
    """The tool's name, and the schema that its arguments are held to."""
    tool = cast(dict[str, Any], value if isinstance(value, dict) else {})
    if tool.get("type") != "function":
        raise parse.wrong(path, value, 'of the form {"type": "function", "function": {"name": …}}')
    function = parse.dictionary(tool, "function") or {}
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name or any(map(str.isspace, name)):
        raise parse.wrong(f"{path}.function.name", name, "a name without spaces")
    if parameters is not None and not isinstance(parameters, dict):
        raise parse.wrong(f"{path}.function.parameters", parameters, "a JSON schema")
    # Whoever runs a tool checks its arguments anyway, unless it was promised that they fit.
    strict = parse.boolean(function, "strict")
    schema = cast(dict[str, Any], parameters or {"type": "object", "properties": {}})
    return name, parse.schema(schema, f"{path}.function.parameters", relax=not strict)


def _read_choice(body: Mapping[str, Any], tools: Tools) -> tuple[ToolChoice, str | None]:
    value = body.get("tool_choice")
    if value in (None, "none", "auto"):
        return value or "auto", None
    if value == "required" and tools:
        return "required", None
    if isinstance(value, dict):
        function: object = cast(dict[str, Any], value).get("function")
        name = cast(dict[str, Any], function).get("name") if isinstance(function, dict) else None
        if name in tools.names:
            return "required", str(name)
    names = ", ".join(tools.names) or "none are given"
    raise parse.wrong("tool_choice", value, f"none, auto, required or one of the tools ({names})")


def _read_format(body: Mapping[str, Any]) -> dict[str, Any] | None:
    value = parse.dictionary(body, "response_format") or {"type": "text"}
    match value:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict()}}:
            path = "response_format.json_schema.schema"
            return parse.schema(value["json_schema"]["schema"], path, relax=False)
        case _:
            raise parse.wrong(
                "response_format",
                value,
                "of the type text, json_object, or json_schema with a schema",
            )
