"""How the text of other files goes into a prompt: by the marks that a family was trained on.

It stands before all that a keystroke changes, so a prompt cache computes it once. Families without
such marks get it as comments of the file's language; a language without line comments gets none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"(\{(?:repository|path|text)\})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Snippet:
    """A piece of another file."""

    path: str
    """As the model shall see it: short, and with `/`."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryContext:
    """What a prompt tells of the files around the one that is written in."""

    repository: str = ""
    """Its name; empty where it has none."""
    snippets: tuple[Snippet, ...] = ()
    """Those that change most seldom come first: what follows a changed one is computed again."""


NO_CONTEXT = RepositoryContext()


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryFormat:
    """A family's marks; `{repository}`, `{path}` and `{text}` stand for the texts."""

    repository: str = ""
    """Opens the prompt of a repository that has a name."""
    snippet: str
    current: str = ""
    """What goes between the snippets and the file that is written in, `{path}`."""
    is_in_prefix: bool = False
    """All this stands at the beginning of the text before the cursor, and not of the prompt."""
    head: str = ""
    """What goes before the file's own text, `{path}`, in the text before the cursor."""

    def render(
        self, context: RepositoryContext, path: str, defuse: Callable[[str], str]
    ) -> tuple[str, str]:
        """What goes before the prompt, and what before the text before the cursor.

        `path`: of the file that is written in. `defuse` makes sentinels ordinary text.
        """

        def filled(pattern: str, **texts: str) -> str:
            return _filled(pattern, {f"{{{name}}}": defuse(text) for name, text in texts.items()})

        name, path = _one_line(context.repository), _one_line(path)
        files = filled(self.repository, repository=name) if name else ""
        for each in context.snippets:
            text = each.text.strip("\n")
            files += filled(self.snippet, path=_one_line(each.path), text=text)
        files += filled(self.current, path=path)
        head = filled(self.head, path=path)
        return ("", files + head) if self.is_in_prefix else (files, head)


def as_comments(snippets: Sequence[Snippet], path: str, mark: str) -> str:
    """The snippets behind a line comment's `mark` each line, then the current file's path."""
    lines: list[str] = []
    for each in snippets:
        lines += [_one_line(each.path), *each.text.strip("\n").split("\n"), ""]
    lines.append(_one_line(path))
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines)


def _filled(pattern: str, texts: Mapping[str, str]) -> str:
    return "".join(texts.get(part, part) for part in _FIELD.split(pattern))


def _one_line(path: str) -> str:
    return " ".join(path.split())
