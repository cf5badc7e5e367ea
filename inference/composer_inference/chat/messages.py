"""Messages as chat templates want them: arguments as objects, tools also where a template knows none."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from composer_inference.chat.template import knows_tools, render_chat
from composer_inference.chat.tools import CLOSER, OPENER

Message = Mapping[str, Any]

_INSTRUCTIONS = """# Tools

These functions, each described by a JSON schema, may help with the user's request:
<tools>
{tools}
</tools>

To call one, answer with its name and arguments as a JSON object between these marks:
{opener}
{{"name": "function's name", "arguments": {{}}}}
{closer}"""


class ToolArguments(dict[str, Any]):
    """The arguments of a past call. Most templates write them with `tojson`; some join them to a
    text, as OpenAI's API gives them."""

    def __str__(self) -> str:
        return json.dumps(self, ensure_ascii=False)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)


def render_conversation(
    template: str | None,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]],
    special_tokens: Mapping[str, str],
) -> str:
    """The prompt that ends where the assistant's answer begins. Arguments of past calls come as
    objects.

    Raises: ChatTemplateError.
    """
    has_calls = any(message["role"] == "tool" or message.get("tool_calls") for message in messages)
    if (tools or has_calls) and not knows_tools(template):
        messages, tools = _with_plain_tools(messages, tools), ()
    return render_chat(template, messages, tools=tools, special_tokens=special_tokens)


def _with_plain_tools(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> list[Message]:
    """The tools and their use as text of the roles that every template knows."""
    plain = [_plain(message) for message in messages]
    if not tools:
        return plain
    described = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    instructions = _INSTRUCTIONS.format(tools=described, opener=OPENER, closer=CLOSER)
    if plain and plain[0]["role"] == "system":
        first = {**plain[0], "content": f"{plain[0]['content']}\n\n{instructions}"}
        return [first, *plain[1:]]
    return [{"role": "system", "content": instructions}, *plain]


def _plain(message: Message) -> Message:
    if message["role"] == "tool":
        content = f"<tool_response>\n{message['content']}\n</tool_response>"
        return {"role": "user", "content": content}
    calls = cast(Sequence[Mapping[str, Any]], message.get("tool_calls") or ())
    texts = [message["content"], *(_call_text(call["function"]) for call in calls)]
    return {"role": message["role"], "content": "\n".join(filter(None, texts))}


def _call_text(function: Mapping[str, Any]) -> str:
    name = json.dumps(function["name"])
    return f'{OPENER}\n{{"name": {name}, "arguments": {function["arguments"]!s}}}\n{CLOSER}'
