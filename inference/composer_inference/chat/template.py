"""Renders a conversation by the model's own Jinja2 chat template, as `transformers` does.

Source: transformers, `utils/chat_template_utils.py`: the sandbox, the white-space options, and the
names that templates rely on.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from composer_inference.backends.base import RejectedRequestError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For a model that brings no template: ChatML, which most of them follow."""

_FAULTS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What a template's own code can raise."""


class ChatTemplateError(RejectedRequestError):
    """The model's template refused the conversation; the message is the template's own."""


def render_chat(
    template: str | None,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    special_tokens: Mapping[str, str],
) -> str:
    """The prompt that ends where the assistant's answer begins.

    Raises: ChatTemplateError.
    """
    try:
        return _compiled(template or CHATML).render(
            messages=messages,
            tools=list(tools) or None,
            add_generation_prompt=True,
            **special_tokens,
        )
    except _FAULTS as error:
        raise ChatTemplateError(f"the model's chat template failed: {error}") from error


@lru_cache(maxsize=8)
def knows_tools(template: str | None) -> bool:
    """Whether the template itself tells the model of its tools.

    Raises: ChatTemplateError for one that cannot be parsed.
    """
    try:
        tree = _environment().parse(template or CHATML)
    except jinja2.TemplateSyntaxError as error:
        raise ChatTemplateError(f"the model's chat template is broken: {error}") from error
    return "tools" in meta.find_undeclared_variables(tree)


@lru_cache(maxsize=8)
def _compiled(template: str) -> jinja2.Template:
    return _environment().from_string(template)


def _environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _GenerationTag],
    )
    environment.filters["tojson"] = _to_json
    names: dict[str, Any] = environment.globals
    names.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's words for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja2's own filter escapes HTML, which no model was trained on.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
