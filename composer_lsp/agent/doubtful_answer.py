"""Why a text that a model wrote may be no answer, but a call that went wrong."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from composer_lsp.agent.model import Reply

_MADE_UP = re.compile(r"<tool_response>.*?(?:</tool_response>|\Z)", re.DOTALL)
"""Small models copy the last result that they saw."""


@dataclass(frozen=True, slots=True)
class Doubt:
    kind: str
    """A model is told of each kind once."""
    text: str
    """For the model."""


def doubts(reply: Reply, tools: Collection[str]) -> Iterator[Doubt]:
    """`tools`: the names of those that are offered."""
    if not _MADE_UP.sub("", reply.text).strip():
        yield Doubt(
            "made up", "You made up what a tool answers. Call the tool, or answer yourself."
        )
    if reply.unknown_tools:
        names = ", ".join(tools)
        yield Doubt("unknown", f"There is no tool {reply.unknown_tools[0]!r}; there are {names}.")
    if reply.doubtful_tools:
        yield Doubt(
            "doubtful",
            f"Your answer holds a call of {reply.doubtful_tools[0]} among other text, so it was not "
            "carried out. If it was an example, answer again as you did. If you meant it, answer with "
            "the call alone.",
        )
