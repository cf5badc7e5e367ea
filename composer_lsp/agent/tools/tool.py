"""A tool: what the model is told of it, and what runs when it is called."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.schema import arguments_of, schema_of

P = ParamSpec("P")


class ToolError(Exception):
    """What the model asked for cannot be done; the text, which it reads, says why and what can."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema."""
    only_reads: bool
    """It changes nothing, so that it may run beside others."""
    function: Callable[..., Awaitable[str]]

    @property
    def definition(self) -> dict[str, Any]:
        """As chat-completion requests name it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    def with_only(self, *names: str) -> "Tool":
        """With these parameters alone; the others keep their defaults."""
        properties: Mapping[str, Any] = self.parameters["properties"]
        kept = {name: properties[name] for name in names}
        return replace(self, parameters={**self.parameters, "properties": kept})

    async def call(self, context: ToolContext, arguments: object) -> str:
        """What the model is answered. Raises: ArgumentError, ToolError, and what workspaces raise."""
        return await self.function(context, **arguments_of(self.function, arguments))


def tool(
    *, only_reads: bool
) -> Callable[[Callable[Concatenate[ToolContext, P], Awaitable[str]]], Tool]:
    """Make a tool of a function: its name, its docstring, and its signature (`schema_of`)."""

    def make(function: Callable[Concatenate[ToolContext, P], Awaitable[str]]) -> Tool:
        return Tool(
            name=function.__name__,
            description=inspect.cleandoc(function.__doc__ or ""),
            parameters=schema_of(function),
            only_reads=only_reads,
            function=function,
        )

    return make
