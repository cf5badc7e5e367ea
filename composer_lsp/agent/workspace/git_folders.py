"""Git's own folders, by whatever name: what is written there is run by git, as hooks are."""

import os
import unicodedata
from pathlib import PurePath


class GitFolders:
    """Looks at each folder once, so it is for one question of many paths."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Whether an absolute path is git's own, be it below a bare repository or a `.git`. A work
        tree that lies in one is not git's."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._holds(path)
        return known

    def _holds(self, path: str) -> bool:
        if is_git_name(PurePath(path).name) or _is_repository(path):
            return True
        above = os.path.dirname(path)  # noqa: PTH120 - of many paths
        if above == path or os.path.lexists(f"{path}{os.sep}.git"):
            return False
        return self.holds(above)


def is_git_name(name: str) -> bool:
    """Whether a file system takes the name for `.git`: some know no case, or leave out characters
    that are not seen, or dots and spaces at the end, or have a short name for it."""
    seen = "".join(each for each in name if unicodedata.category(each) != "Cf")
    return seen.casefold().partition(":")[0].rstrip(". ") in (".git", "git~1")


def _is_repository(folder: str) -> bool:
    """As git tells one."""
    return os.path.lexists(f"{folder}{os.sep}HEAD") and all(
        os.path.isdir(f"{folder}{os.sep}{each}")  # noqa: PTH112
        for each in ("objects", "refs")
    )
