"""Git's own folders, by whatever name: what is written there is run by git, as hooks are."""

import os
import unicodedata


class GitFolders:
    """Looks at each folder once, so it is for one question of many paths."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Whether an absolute path is git's own, be it below a bare repository or a `.git`. A work
        tree that lies in one is not git's."""
        below: list[str] = []
        while (known := self._known.get(path)) is None:
            below.append(path)
            known = self._is_known_by_itself(path)
            if known is not None:
                break
            path = os.path.dirname(path)  # noqa: PTH120 - of many paths
        self._known.update(dict.fromkeys(below, known))
        return known

    def _is_known_by_itself(self, path: str) -> bool | None:
        """None: it is as the folder above it."""
        if is_git_name(path.rpartition(os.sep)[2]) or _is_repository(path):
            return True
        is_top = os.path.dirname(path) == path  # noqa: PTH120
        return False if is_top or os.path.lexists(f"{path}{os.sep}.git") else None


def is_git_name(name: str) -> bool:
    """Whether a file system takes the name for `.git`: some know no case, or leave out characters
    that are not seen, or dots and spaces at the end, or have a short name for it."""
    seen = name
    if not name.isascii():
        seen = "".join(each for each in name if unicodedata.category(each) != "Cf")
    return seen.casefold().partition(":")[0].rstrip(". ") in (".git", "git~1")


def _is_repository(folder: str) -> bool:
    """As git tells one."""
    return os.path.lexists(f"{folder}{os.sep}HEAD") and all(
        os.path.isdir(f"{folder}{os.sep}{each}")  # noqa: PTH112
        for each in ("objects", "refs")
    )
