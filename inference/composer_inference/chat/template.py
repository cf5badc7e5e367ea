"""Renders a conversation by the model's own Jinja2 chat template."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn, cast

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from composer_inference.backends.base import BackendError

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For a model that brings no template: ChatML, which most of them follow."""


class ChatTemplateError(BackendError):
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
    except (jinja2.TemplateError, TypeError, KeyError) as error:
        raise ChatTemplateError(f"the model's chat template failed: {error}") from error


@lru_cache(maxsize=8)
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    extra: dict[str, Any] = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    cast(dict[str, Any], environment.globals).update(extra)
    return environment.from_string(template)


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    # Jinja2's own filter escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
