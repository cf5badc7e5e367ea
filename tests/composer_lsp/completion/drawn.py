"""Documents drawn in a test's text: `ˇ` is the cursor."""

import textwrap
from dataclasses import dataclass

from composer_lsp.completion.request import CompletionRequest, DocumentSnapshot
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.trim import FinishReason, Trimmer

CURSOR = "ˇ"


@dataclass(frozen=True)
class Drawn:
    text: str
    offset: int


def drawn(picture: str) -> Drawn:
    """The document of a picture; a picture that begins with a newline is dedented."""
    if picture.startswith("\n"):
        picture = textwrap.dedent(picture[1:])
    assert picture.count(CURSOR) == 1, picture
    offset = picture.index(CURSOR)
    return Drawn(picture.replace(CURSOR, ""), offset)


def accept(document: Drawn, text: str | None) -> str:
    """The picture after the suggestion was accepted; the cursor stands behind it."""
    inserted = text or ""
    return document.text[: document.offset] + inserted + CURSOR + document.text[document.offset :]


def trimmed(
    document: Drawn,
    answer: str,
    *,
    language_id: str = "python",
    num_indent_spaces: int | None = None,
    reason: FinishReason = "stop",
    chunk_chars: int = 3,
) -> str | None:
    """What is left of an answer that streams in by pieces of `chunk_chars`."""
    trimmer = Trimmer(
        Surroundings.of(
            document.text,
            document.offset,
            language_id=language_id,
            num_indent_spaces=num_indent_spaces,
        )
    )
    for start in range(0, len(answer), chunk_chars):
        if trimmer.feed(answer[start : start + chunk_chars]):
            return trimmer.finish("stop")
    return trimmer.finish(reason)


def request_at(
    picture: str,
    *,
    version: int = 1,
    uri: str = "file:///w/a.py",
    language_id: str = "python",
    trigger: str = "automatic",
) -> CompletionRequest:
    document = drawn(picture)
    return CompletionRequest(
        document=DocumentSnapshot(
            uri=uri, version=version, text=document.text, language_id=language_id
        ),
        offset=document.offset,
        trigger="invoked" if trigger == "invoked" else "automatic",
    )
