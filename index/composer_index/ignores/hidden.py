"""What nobody may read for a user: secrets, and what a `.composerignore` hides."""

import os
from pathlib import Path

from composer_index.ignores.composerignore import ComposerIgnore
from composer_index.ignores.secrets import is_secret_path

_SECRET = "may hold secrets by its name"
_NO_FILE = "has a name that no file can have"


class HiddenFiles:
    """For one thread."""

    def __init__(self) -> None:
        self._ignores = ComposerIgnore()

    def why_hidden(self, path: str) -> str | None:
        """Why a file's text may reach no index, prompt or tool, as in "is hidden by …"; None if it
        may. Of a link, neither its own path may be hidden nor the one that it leads to. A path
        that is not absolute is a mere name, of a document that was never saved."""
        if not Path(path).is_absolute():
            return _SECRET if is_secret_path(path) else None
        try:
            return self._why_hidden(path)
        except ValueError:  # a null character, or half of a surrogate pair
            return _NO_FILE

    def _why_hidden(self, path: str) -> str | None:
        for place in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
            if is_secret_path(place):
                return _SECRET
            if (file := self._ignores.hidden_by(place)) is not None:
                return f"is hidden by {file}"
        return None
