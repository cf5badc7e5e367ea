"""Programs that may run in the sandbox without a question: they only read, and run nothing else.

Conservative: a program that is not here, or an option that makes it write or run something, asks.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.options import has_option, positional
from composer_lsp.agent.commands.rules import trusted_name
from composer_lsp.agent.commands.words import Word

Check = Callable[[Sequence[Word]], bool]
"""Whether a program is harmless with these arguments."""

_ANY_ARGUMENTS = [
    "[",
    "[[",
    ":",
    "arch",
    "basename",
    "break",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "continue",
    "cut",
    "df",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "expand",
    "expr",
    "factor",
    "false",
    "fgrep",
    "fmt",
    "fold",
    "free",
    "getconf",
    "grep",
    "groups",
    "head",
    "hexdump",
    "hostname",
    "id",
    "join",
    "jq",
    "local",
    "ls",
    "lscpu",
    "md5sum",
    "nl",
    "nproc",
    "numfmt",
    "od",
    "paste",
    "pr",
    "printenv",
    "pwd",
    "readlink",
    "realpath",
    "return",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shift",
    "sleep",
    "stat",
    "strings",
    "tac",
    "tail",
    "tr",
    "true",
    "tsort",
    "tty",
    "type",
    "uname",
    "unexpand",
    "uptime",
    "wait",
    "wc",
    "whereis",
    "which",
    "whoami",
]

_WITHOUT_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "date": ("-s", "--set"),
    "diff": ("-l", "--paginate"),
    "fd": ("-x", "-X", "-l", "--exec", "--exec-batch", "--list-details"),
    "fdfind": ("-x", "-X", "-l", "--exec", "--exec-batch", "--list-details"),
    "file": ("-C", "-z", "-Z", "--compile", "--uncompress", "--uncompress-noreport"),
    "find": ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"),
    "printf": ("-v",),
    "rg": ("-z", "--pre", "--search-zip", "--hostname-bin"),
    "shellcheck": (),
    "sort": ("-o", "-T", "--output", "--compress-program", "--temporary-directory"),
    "test": ("-v", "-R"),
    "tree": ("-o", "-R"),
}

_GIT_WRITERS = (
    "-o",
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--exec",
    "--upload-pack",
)
_GIT_DIFFERS = ("--output", "--ext-diff", "--textconv")
_GIT_READERS = {
    "blame": _GIT_DIFFERS,
    "cat-file": _GIT_WRITERS,
    "describe": (),
    "diff": _GIT_DIFFERS,
    "diff-tree": _GIT_DIFFERS,
    "grep": ("-O", "--open-files-in-pager", "--ext-grep", "--textconv"),
    "log": _GIT_DIFFERS,
    "ls-files": (),
    "ls-tree": (),
    "merge-base": (),
    "name-rev": (),
    "rev-list": (),
    "rev-parse": (),
    "shortlog": ("--output",),
    "show": _GIT_DIFFERS,
    "show-ref": (),
    "status": (),
    "whatchanged": _GIT_DIFFERS,
}
_GIT_LISTERS: Mapping[str, frozenset[str]] = {
    "branch": frozenset(
        [
            "-a",
            "-r",
            "-v",
            "-vv",
            "-l",
            "--all",
            "--remotes",
            "--list",
            "--show-current",
            "--verbose",
        ]
    ),
    "tag": frozenset(["-l", "-n", "--list"]),
    "stash": frozenset({"list", "show", "-p", "--stat"}),
    "worktree": frozenset({"list", "--porcelain"}),
    "remote": frozenset({"-v", "--verbose"}),
    "reflog": frozenset({"show"}),
    "submodule": frozenset({"status"}),
}
_GIT_OPTIONS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_VERSION_OPTIONS = frozenset({"--version", "-V", "-v", "-version", "version"})
_VERSIONED = frozenset(
    [
        "bash",
        "bun",
        "cargo",
        "clang",
        "cmake",
        "cc",
        "deno",
        "dotnet",
        "g++",
        "gcc",
        "git",
        "go",
        "gradle",
        "java",
        "javac",
        "make",
        "mvn",
        "mypy",
        "node",
        "npm",
        "npx",
        "perl",
        "php",
        "pip",
        "pip3",
        "pnpm",
        "poetry",
        "pyright",
        "pytest",
        "python",
        "python3",
        "ruby",
        "ruff",
        "rustc",
        "rustup",
        "tsc",
        "uv",
        "yarn",
    ]
)
_SED_PRINT = re.compile(
    r"\s*(\d+|\$)(\s*,\s*(\d+|\$))?\s*p(\s*;\s*(\d+|\$)(\s*,\s*(\d+|\$))?\s*p)*\s*"
)
_NAME = re.compile(r"[A-Za-z_]\w*")


def is_harmless(program: Program) -> bool:
    name = trusted_name(program)
    texts = [word.text for word in program.args]
    if name in _VERSIONED and len(texts) == 1 and texts[0] in _VERSION_OPTIONS:
        return True
    if name in _WITHOUT_OPTIONS:
        return not has_option(program.args, _WITHOUT_OPTIONS[name])
    check = _CHECKS.get(name)
    return check is not None and check(program.args)


def _git(args: Sequence[Word]) -> bool:
    words = list(args)
    while words and words[0].text in _GIT_OPTIONS:
        del words[0]
    while len(words) > 1 and words[0].text == "-C" and words[1].is_literal:
        del words[:2]
    if not words or not words[0].is_literal:
        return False
    subcommand, rest = words[0].text or "", words[1:]
    if subcommand in _GIT_READERS:
        return not has_option(rest, _GIT_READERS[subcommand])
    if subcommand in _GIT_LISTERS:
        return all(word.is_literal and word.text in _GIT_LISTERS[subcommand] for word in rest) and (
            subcommand != "stash" or bool(rest)
        )
    return False


def _sed(args: Sequence[Word]) -> bool:
    """`sed -n 10,20p FILE…`"""
    if len(args) < 2 or args[0].text not in ("-n", "-ne") or not args[1].is_literal:
        return False
    return _SED_PRINT.fullmatch(args[1].text or "") is not None and len(
        positional(args[2:])
    ) == len(args[2:])


def _one_file(args: Sequence[Word]) -> bool:
    """A second file would be written."""
    return all(word.is_literal for word in args) and len(positional(args)) <= 1


def _read(args: Sequence[Word]) -> bool:
    return all(word.text in ("-r", "-a", "-s") or _NAME.fullmatch(word.text or "") for word in args)


def _set(args: Sequence[Word]) -> bool:
    return all(re.fullmatch(r"[-+][eufxo]+|pipefail", word.text or "") for word in args)


def _query(args: Sequence[Word]) -> bool:
    return bool(args) and args[0].text in ("-v", "-V")


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(_ANY_ARGUMENTS, lambda args: True),
    "command": _query,
    "git": _git,
    "read": _read,
    "sed": _sed,
    "set": _set,
    "uniq": _one_file,
    "env": lambda args: not args,
}
