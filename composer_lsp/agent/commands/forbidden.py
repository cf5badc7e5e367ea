"""What is never run, whoever asks: what destroys a machine or the user's files outright.

A help against accidents, not a wall: what is disguised is asked about, and the sandbox holds it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from composer_lsp.agent.commands.command import Command, Program, Redirect
from composer_lsp.agent.commands.options import has_option
from composer_lsp.agent.commands.words import Word

_PROGRAMS = {
    **dict.fromkeys(
        ("shutdown", "reboot", "halt", "poweroff", "telinit", "killall5"), "stops the machine"
    ),
    **dict.fromkeys(
        ("mkswap", "fdisk", "sfdisk", "cfdisk", "parted", "wipefs", "blkdiscard"),
        "changes or erases a disk",
    ),
}
_SYSTEMCTL = frozenset(
    [
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "suspend",
        "hibernate",
        "rescue",
        "emergency",
        "isolate",
    ]
)
_TOP_FOLDERS = frozenset(
    [
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/lib",
        "/lib32",
        "/lib64",
        "/media",
        "/mnt",
        "/opt",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/srv",
        "/sys",
        "/tmp",
        "/usr",
        "/var",
        "/Applications",
        "/Library",
        "/System",
        "/Users",
        "/Volumes",
        "/private",
    ]
)
_HOME = frozenset({"~", "$HOME", "${HOME}"})
_DEVICE_FILES = frozenset(
    f"/dev/{name}"
    for name in ["null", "zero", "full", "stdin", "stdout", "stderr", "tty", "random", "urandom"]
)
_RECURSIVE = ("-r", "-R", "--recursive")


def why_forbidden(command: Command, cwd: str) -> Iterator[tuple[str, str]]:
    """Each program, file or function of the line that is forbidden, and why."""
    for name in command.fork_bombs:
        yield name, "starts itself without end"
    for redirect in command.redirects:
        if (why := _of_redirect(redirect)) is not None:
            yield redirect.target.source, why
    for program in command.programs:
        if (why := _of_program(program, cwd)) is not None:
            yield str(program), why


def _of_redirect(redirect: Redirect) -> str | None:
    if redirect.writes and _is_device(redirect.target.text or ""):
        return "writes to a device"
    return None


def _is_device(path: str) -> bool:
    path = os.path.normpath(path)
    is_plain = path in _DEVICE_FILES or path.startswith(("/dev/fd/", "/dev/shm/"))
    return path.startswith("/dev/") and not is_plain


def _of_program(program: Program, cwd: str) -> str | None:
    name, args = program.base_name, program.args
    texts = [word.text or "" for word in args]
    if name in _PROGRAMS:
        return _PROGRAMS[name]
    if name.startswith("mkfs"):
        return "erases a disk"
    if name == "init" and texts[:1] in (["0"], ["6"]):
        return "stops the machine"
    if name == "systemctl" and _SYSTEMCTL & set(texts):
        return "stops the machine"
    if name in ("dd", "tee", "shred", "cp") and any(
        _is_device(text.removeprefix("of=")) for text in texts if name != "cp" or text == texts[-1]
    ):
        is_read = name == "dd" and not any(text.startswith("of=") for text in texts)
        return None if is_read else "writes to a device"
    if name == "kill" and "-1" in texts[1:]:
        return "ends every process of the user"
    return _of_recursion(name, args, cwd)


def _of_recursion(name: str, args: Sequence[Word], cwd: str) -> str | None:
    is_deleting = (name == "rm" and has_option(args, _RECURSIVE)) or (
        name == "find" and has_option(args, ("-delete",))
    )
    is_changing = name in ("chmod", "chown", "chgrp") and has_option(args, _RECURSIVE)
    if name == "rm" and any(
        word.is_literal and has_option([word], ("--no-preserve-root",)) for word in args
    ):
        return "deletes the whole machine's files"
    for word in args if is_deleting or is_changing else ():
        if (what := _protected(word, cwd)) is not None:
            return f"{'deletes' if is_deleting else 'changes'} {what}"
    return None


def _protected(word: Word, cwd: str) -> str | None:
    """What must not be deleted or changed as a whole, if the word names it."""
    text = (word.source.strip("\"'") if word.text is None else word.text).rstrip("*") or "*"
    if text != "/":
        text = text.rstrip("/") or ("/" if text.startswith("/") else text)
    if text in _HOME:
        return "the whole home folder"
    if text.startswith(("~", "$", "-")):
        return None
    path = os.path.normpath(os.path.join(cwd, text))  # noqa: PTH118 - of a path that need not exist
    path = "/" + path.lstrip("/")
    if path == "/" or path in _TOP_FOLDERS:
        return f"all of {path}"
    if PurePosixPath(path).name == ".git":
        return "a repository"
    if path != cwd and PurePosixPath(cwd).is_relative_to(path):
        return f"{path}, which the working folder lies in"
    if path == os.path.normpath(os.path.expanduser("~")):  # noqa: PTH111
        return "the whole home folder"
    return None
