"""Which lines of which files are typed."""

import random
from dataclasses import dataclass
from pathlib import Path

_LANGUAGES = {
    ".py": "python",
    ".js": "javascript",
    ".ts": "typescript",
    ".go": "go",
    ".rs": "rust",
    ".lua": "lua",
    ".c": "c",
    ".java": "java",
    ".rb": "ruby",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """Some whole lines in the middle of a file, taken out to be typed again."""

    path: str
    """Relative to its folder."""
    language_id: str
    before: str
    """Up to the cursor: with the first line's indentation, which the editor has made."""
    text: str
    """To be typed; without the last line's end."""
    after: str
    others: tuple[str, ...] = ()
    """Texts of files beside it, which are open."""


def draw(folder: Path, path: str, *, num_chars: int, seed: int) -> Typed:
    """At least `num_chars` characters from a drawn line of the middle of the file on, which has to be
    indented, so that it is within something.

    Raises: ValueError if the file is too short.
    """
    content = (folder / path).read_text(encoding="utf-8").replace("\r\n", "\n")
    start = _start(content, num_chars, random.Random(f"{seed}:{path}"))
    end = content.index("\n", start + num_chars)
    indent = len(content[start:end]) - len(content[start:end].lstrip(" \t"))
    return Typed(
        path=path,
        language_id=language_of(path),
        before=content[: start + indent],
        text=content[start + indent : end].rstrip(),
        after=content[end:],
        others=tuple(each.read_text(encoding="utf-8") for each in beside(folder / path)),
    )


def language_of(path: str) -> str:
    return _LANGUAGES.get(Path(path).suffix, "plaintext")


def beside(path: Path) -> list[Path]:
    """Files of its kind in its folder, three at most."""
    found = sorted(each for each in path.parent.glob(f"*{path.suffix}") if each != path)
    return [each for each in found if each.stat().st_size > 0][:3]


def _start(content: str, num_chars: int, chance: random.Random) -> int:
    first, last = len(content) // 4, len(content) - num_chars - len(content) // 10
    starts = [
        place + 1
        for place, char in enumerate(content)
        if char == "\n"
        and first <= place < last
        and content[place + 1 : place + 2] in {" ", "\t"}
        and content[place + 1 :].split("\n", 1)[0].strip()
    ]
    if not starts:
        raise ValueError("the file is too short to type so much of it")
    return chance.choice(starts)
