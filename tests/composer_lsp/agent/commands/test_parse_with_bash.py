"""Bash runs tricky lines, without any program to run: what it looks for must have been told."""

import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from composer_lsp.agent.commands.parse import parse

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")

_BEFORE = r"""
command_not_found_handle() { builtin printf '%s\0' "$@" $'\1' >&9; return 1; }
PATH=/nonexistent
exec 9>&FD </dev/null >/dev/null 2>&1
enable -n echo test pwd cd kill type wait read history fc let hash alias shopt ulimit umask times
"""

LINES = [
    "rm > /dev/null -rf x",
    "rm <<E -rf 'a b'\nx\nE",
    "a<b>c d",
    "a 2>b c 3>&1 d",
    "{ a; b; } | c",
    "{a,b} c",
    "a {b,c} d{1..3}",
    "a 'b'\"c\"d\\ e",
    "\\ a b",
    "a \\\nb",
    "a\\\nb c",
    'a "b \\\n c"',
    "a $'b\\x41' $\"c\"",
    "a b=~ ~ c:~",
    "a # b\nc",
    "a#b # c",
    "a;b&c|d||e&&f",
    "a $ b",
    "a <<< $\nrm b",
    "a 2> $ $#b",
    '!"" a',
    "! a",
    "[ -- a | * ]",
    "[-- a ]]",
    "1=a b",
    "?x=1 b",
    "x=1 y=2 b c",
    "x=(1 2) b",
    "a -r2> b",
    "a 10> b",
    "a {fd}> b",
    "eval -- b c",
    "eval 'b; c'",
    "eval b \\; c",
    "command b c",
    "exec b c",
    "b & c",
    "coproc b",
    "case x in (x) a;; *) b;; esac",
    "if a; then b; else c; fi",
    "for i in 1 2; do a $i; done",
    "a `b \\`c\\``",
    "a \"`b`\" '`c`'",
    "a <<'E' | b\n$(c)\nE",
    "a <<E | b\n$(c) `d` \\$(e)\nE",
    "a <<-E\n\tx\n\tE\nb",
    "a <<E b <<F c\n1\nE\n2\nF\nd",
    "a <(b) >(c)",
    'f() { b "$@"; }; f c',
    "a $(b $(c) | d)",
    'a "$(b "c d")"',
    "% } \n\\\n-r",
    "<<< { }\nE",
    "a |& b",
    "a &>b c",
    "a >& b c",
    "time a b",
    "time -p a",
    "time x= a b",
    "time = a",
    "=\\ \\\n a",
    "trap 'b c' EXIT",
    "a é ü",
    "[[ a == b ]] && c || d",
    "((0)) && a || b",
    "a=b; $a c",
    "select x in a; do b; done",
]


def looked_for(line: str, folder: Path) -> list[list[str]]:
    """The programs that bash looks for, with their arguments."""
    with tempfile.TemporaryFile() as log:
        script = _BEFORE.replace("FD", str(log.fileno())) + line
        subprocess.run(
            [str(BASH), "--norc", "--noprofile", "-c", script],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(log.fileno(),),
            env={"HOME": "/h"},
            timeout=60,
            check=False,
        )
        log.seek(0)
        text = log.read().decode()
    return [call.split("\0") for call in text.split("\0\1\0")[:-1]]


def is_told(call: list[str], line: str) -> bool:
    """Whether one of the line's programs is what bash looked for, as far as it is known."""
    for program in parse(line).programs:
        known = [word.text if word.is_literal else None for word in program.words]
        if None in known:
            num_known = known.index(None)
            if call[:num_known] == known[:num_known]:
                return True
        elif call == known:
            return True
    return False


def untold(line: str, folder: Path) -> list[list[str]]:
    if parse(line).unknown:
        return []
    return [call for call in looked_for(line, folder) if not is_told(call, line)]


@pytest.mark.parametrize("line", LINES)
def test_bash_runs_nothing_that_was_not_told(line: str, tmp_path: Path) -> None:
    assert untold(line, tmp_path) == []


def test_bash_is_heard(tmp_path: Path) -> None:
    assert looked_for("a 'b c' | d", tmp_path) in ([["a", "b c"], ["d"]], [["d"], ["a", "b c"]])
    assert not is_told(["rm", "x"], "ls x")


_PIECES = [
    "a",
    "b",
    "rm",
    "-r",
    "'",
    '"',
    "$",
    "$(",
    "`",
    ")",
    "(",
    "{",
    "}",
    ";",
    "&",
    "&&",
    "||",
    "|",
    ">",
    "<",
    "<<",
    "<<E\n",
    "\nE\n",
    "#",
    "\\",
    "!",
    "[[",
    "]]",
    "[",
    "]",
    "=",
    "x=",
    "$x",
    "${",
    "*",
    "?",
    "~",
    "if",
    "then",
    "fi",
    "case",
    "esac",
    "$'",
    '$"',
    "1",
    "2>",
    "&>",
    "|&",
    ";;",
    "$((",
    "))",
    "{a,b}",
    "<(",
    "<<<",
    "time",
    "else",
    "elif",
    "$#",
    "$@",
    "\\;",
    "\\\n",
    "@(",
    "%",
    "^",
    "eval",
    "xargs",
    "exec",
    "command",
]


@pytest.mark.soak
def test_bash_runs_nothing_of_random_lines_that_was_not_told(tmp_path: Path) -> None:
    """No loops and no functions among the pieces, so that every line ends."""
    choice = random.Random(1)
    num_run = 0
    while num_run < 5000:
        pieces = choice.choices(_PIECES, k=choice.randint(2, 12))
        line = "".join(piece + choice.choice(("", " ", " ")) for piece in pieces)
        if not parse(line).unknown and not re.search(r"\(\s*\)", line):
            num_run += 1
            assert untold(line, tmp_path) == [], line
