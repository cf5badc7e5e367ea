"""Secrets that git has a copy of: what covers a file on the disk does not cover those.

Known limits: a program other than git that reads the repository's own folder, a patch that names
an object which git applies, what the same line fetches, and a history that cannot be gone through
within seconds, of which only the index and the last commit count.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from composer_lsp.agent.commands import parse
from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.git_command import GitCommand
from composer_lsp.agent.commands.words import Word
from composer_lsp.agent.tools.git_objects import GitObjects, Secret


def secret_that_git_may_show(line: str, folder: Path) -> Secret | None:
    """A hidden file whose text git may print when the line runs in `folder`: in the index, in the
    last commit, or in any that a branch or a reflog leads to; or what may be one. Asks git: 10 ms and
    more, up to seconds."""
    command = parse(line)
    calls = [call for each in command.programs if (call := GitCommand.of(each)) is not None]
    shown = [call for call in calls if call.may_show]
    naming = [call for call in calls if call.gives_names]
    if not shown and not naming:
        return None
    for call in shown:
        if call.unknown is not None:
            return Secret(call.unknown, is_known=False)
    assigned = (*command.assignments, *(item for call in calls for item in call.assignments))
    # Names and settings make a command show what its own words do not.
    trusts_paths = not naming and not any(item.name.startswith("GIT_") for item in assigned)
    try:
        folders = list(dict.fromkeys(_folders(command.programs, folder)))
    except _UnknownFolderError as error:
        return Secret(str(error), is_known=False)
    for each in folders:
        objects = GitObjects(each)
        found = objects.hidden_behind(name for call in (*shown, *naming) for name in call.names)
        if found is None and shown:
            found = _secret_of(objects, each, shown, trusts_paths=trusts_paths)
        if found is not None:
            return found
    return None


def _secret_of(
    objects: GitObjects, folder: Path, calls: Iterable[GitCommand], *, trusts_paths: bool
) -> Secret | None:
    for path in objects.hidden():
        secret = objects.absolute(path)
        if not (trusts_paths and all(call.is_kept_from(secret, folder) for call in calls)):
            return Secret(path)
    return None


class _UnknownFolderError(Exception):
    """Where git runs is not known; the text says what it may show."""


def _folders(programs: Iterable[Program], folder: Path) -> Iterator[Path]:
    """Where the line may run git. Raises: _UnknownFolderError."""
    yield folder
    at = folder
    for program in programs:
        if program.base_name in ("cd", "pushd"):
            at = _below(at, program.args[0] if program.args else None)
            yield at
        elif (call := GitCommand.of(program)) is not None:
            there = at
            for words in call.options:
                if words[0].text == "-C" and len(words) > 1:
                    there = _below(there, words[1])
            yield there


def _below(folder: Path, word: Word | None) -> Path:
    if word is None or not word.is_literal or not word.text or word.text.startswith("-"):
        raise _UnknownFolderError(f"what lies in {'~' if word is None else word.source}")
    return Path(os.path.normpath(folder / word.text))
