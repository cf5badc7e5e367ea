"""Programs that run other programs: which of their arguments are the other's words.

An option that is not in the table makes the wrapper opaque, and the user is asked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from composer_lsp.agent.commands.words import UNKNOWN, Word, literal

SHELLS = frozenset({"bash", "sh", "dash", "ash"})
"""Those whose language is near enough to bash's."""
_SHELL_LETTERS = frozenset("abcefhiklmnptuvx")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_FIND_EXEC = ("-exec", "-execdir", "-ok", "-okdir")


class OpaqueError(Exception):
    """What the wrapper runs cannot be told; the message says why, as in "runs …"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper:
    flags: frozenset[str] = frozenset()
    """Options without a value."""
    valued: frozenset[str] = frozenset()
    """Options that take the next word, or the rest of their own, as a value."""
    queries: frozenset[str] = frozenset()
    """Options with which it runs nothing."""
    num_leading: int = 0
    """Arguments before the other program's words."""
    adds_words: bool = False
    assigns: bool = False
    is_transparent: bool = True
    """It gives the other program no rights that it would not have without."""
    default: tuple[str, ...] = field(default=())
    """What runs if no words are given."""


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: Mapping[str, Wrapper] = {
    "env": Wrapper(
        flags=_options("-i - -0 --ignore-environment --null"),
        valued=_options("-u --unset"),
        assigns=True,
    ),
    "nohup": Wrapper(),
    "time": Wrapper(flags=_options("-p -v --portability --verbose"), assigns=True),
    "nice": Wrapper(valued=_options("-n --adjustment")),
    "ionice": Wrapper(flags=_options("-t"), valued=_options("-c -n --class --classdata")),
    "timeout": Wrapper(
        flags=_options("--preserve-status --foreground -v --verbose"),
        valued=_options("-s --signal -k --kill-after"),
        num_leading=1,
    ),
    "stdbuf": Wrapper(valued=_options("-i -o -e --input --output --error")),
    "setsid": Wrapper(flags=_options("-c -f -w --ctty --fork --wait")),
    "command": Wrapper(flags=_options("-p"), queries=_options("-v -V")),
    "builtin": Wrapper(),
    "exec": Wrapper(flags=_options("-c -l"), valued=_options("-a")),
    "xargs": Wrapper(
        flags=_options("-0 -r -t -x --null --no-run-if-empty --verbose --exit"),
        valued=_options(
            "-n -I -P -L -s -d -E --max-args --max-procs --max-lines --replace --delimiter"
        ),
        adds_words=True,
        default=("echo",),
    ),
    "sudo": Wrapper(
        flags=_options("-E -H -n -b -k -S --preserve-env --set-home --non-interactive"),
        valued=_options("-u -g --user --group"),
        queries=_options("-l -v -V --list --validate --version"),
        assigns=True,
        is_transparent=False,
    ),
    "busybox": Wrapper(),
    "doas": Wrapper(flags=_options("-n"), valued=_options("-u"), is_transparent=False),
}


def wrapped(wrapper: Wrapper, args: Sequence[Word]) -> tuple[list[str], list[Word]]:
    """The assignments and the words of the program that runs; no words if none does.
    Raises: OpaqueError."""
    rest, is_query = _after_options(wrapper, list(args))
    if is_query:
        return [], []
    del rest[: wrapper.num_leading]
    assigned: list[str] = []
    if wrapper.assigns:
        assigned = [word.text or "" for word in takewhile(_is_assignment, rest)]
        del rest[: len(assigned)]
    options = args[: len(args) - len(rest)]
    rest = rest or [literal(name) for name in wrapper.default]
    return assigned, _with_input(options, rest) if wrapper.adds_words else rest


def _with_input(options: Sequence[Word], rest: list[Word]) -> list[Word]:
    """What xargs runs: its input's words are added, or take the place of `-I`'s text."""
    texts = [word.text or "" for word in options]
    places = [
        text[2:] or following for text, following in pairwise([*texts, ""]) if text.startswith("-I")
    ]
    places += [text.partition("=")[2] or "{}" for text in texts if text.startswith("--replace")]
    if any(place in rest[0].source for place in places):
        raise OpaqueError("runs what it reads")
    inner = [UNKNOWN if any(place in word.source for place in places) else word for word in rest]
    return inner if places else [*inner, UNKNOWN]


def _is_assignment(word: Word) -> bool:
    return word.is_literal and _ASSIGNMENT.match(word.text or "") is not None


def _after_options(wrapper: Wrapper, args: list[Word]) -> tuple[list[Word], bool]:
    is_query = False
    while args and args[0].may_be_option:
        option = args[0].text
        if not args[0].is_literal or option is None:
            raise OpaqueError("runs a program whose options are not known")
        name, has_value, _ = option.partition("=")
        args = args[1:]
        if option == "--":
            break
        if option in wrapper.queries:
            is_query = True
        elif name in wrapper.valued:
            args = args if has_value else args[1:]
        elif option not in wrapper.flags and not _is_joined(wrapper, option):
            raise OpaqueError(f"uses the option {option}, which may change what runs")
    return args, is_query


def _is_joined(wrapper: Wrapper, option: str) -> bool:
    """`-n1`, `-oL`, and nice's `-10`."""
    if option.startswith("--"):
        return False
    return option[:2] in wrapper.valued or (option[1:].isdigit() and "-n" in wrapper.valued)


def shell_script(args: Sequence[Word]) -> Word | None:
    """The text that a shell gets by `-c`; None if it runs a file. Raises: OpaqueError."""
    has_script = False
    words = list(args)
    while words and words[0].may_be_option | words[0].prefix.startswith("+"):
        option = words.pop(0)
        text = option.text
        if not option.is_literal or text is None:
            raise OpaqueError("runs a shell whose options are not known")
        if text in ("--norc", "--noprofile", "--login", "--posix"):
            continue
        if text in ("--version", "--help"):
            return None
        if text in ("-o", "+o"):
            del words[:1]
            continue
        if not set(text[1:]) <= _SHELL_LETTERS:
            raise OpaqueError(f"runs a shell with the option {text}")
        has_script = has_script or (text[0] == "-" and "c" in text)
    if not words:
        raise OpaqueError("runs a shell on what it reads")
    if not words[0].is_literal:
        raise OpaqueError("runs a shell on text that is not known")
    return words[0] if has_script else None


def run_by_find(args: Sequence[Word]) -> Iterator[list[Word]]:
    """The words of each program that `find` runs on what it finds. Raises: OpaqueError."""
    words = list(args)
    while words:
        if words.pop(0).text not in _FIND_EXEC:
            continue
        inner = list(takewhile(lambda word: word.text not in (";", "+"), words))
        del words[: len(inner) + 1]
        if not inner or "{}" in (inner[0].text or ""):
            raise OpaqueError("runs the files that it finds")
        yield [UNKNOWN if "{}" in word.source else word for word in inner]
