"""A prompt's content blocks, as the words of a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import url2pathname

from acp import schema

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.workspace.paths import PathError, Paths

_MAX_ATTACHED_CHARS = 12_000
"""Of one attached text."""

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class PromptError(Exception):
    """A prompt that cannot be taken; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    text: str
    """The user's words, with files named where he put them."""
    attached: str = ""
    """Texts that came with them."""
    left_out: tuple[str, ...] = ()
    """What was attached and is not for the model, and why."""


def read_prompt(blocks: Sequence[Block], paths: Paths) -> Prompt:
    """Takes its time (git may be asked of a file). Raises: PromptError."""
    words: list[str] = []
    attached: list[str] = []
    left_out: list[str] = []
    was_text = False
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            words += ["\n", block.text] if was_text else [block.text]
        elif isinstance(block, schema.ResourceContentBlock):
            words.append(_name(block.uri, paths))
        elif isinstance(block, schema.EmbeddedResourceContentBlock):
            name = _name(block.resource.uri, paths)
            words.append(name)
            if (why := _why_hidden(block.resource, paths)) is None:
                attached.append(_quoted(name, block.resource))
            else:
                left_out.append(why)
        else:
            raise PromptError(f"this agent does not understand {block.type}s")
        was_text = isinstance(block, schema.TextContentBlock)
    text = "".join(words).strip()
    if not text:
        raise PromptError("the prompt has no text")
    return Prompt(text=text, attached="\n\n".join(attached), left_out=tuple(left_out))


def _name(uri: str, paths: Paths) -> str:
    """A file's path as the workspace shows it, with its lines if the client names some; else the
    URI itself."""
    path = _local(uri)
    if path is None:
        return uri
    place = paths.of_absolute(path)
    fragment = urlsplit(uri).fragment
    name = path if place is None else place.path
    return f"{name} ({fragment})" if fragment else name


def _why_hidden(
    resource: schema.TextResourceContents | schema.BlobResourceContents, paths: Paths
) -> str | None:
    if isinstance(resource, schema.BlobResourceContents):
        return f"{_name(resource.uri, paths)} is no text"
    path = _local(resource.uri)
    place = None if path is None else paths.of_absolute(path)
    if place is None:
        return None
    try:
        paths.check(place, may_be_ignored=True)
    except PathError as error:
        return str(error)
    return None


def _quoted(name: str, resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    assert isinstance(resource, schema.TextResourceContents)
    return (
        f"{name}, as the user has it:\n```\n{cut_middle(resource.text, _MAX_ATTACHED_CHARS)}\n```"
    )


def _local(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return url2pathname(parts.path) if parts.scheme == "file" else None
