"""Git as it comes, whatever the developer's own settings say."""

from tests.composer_index.files.conftest import plain_git

__all__ = ["plain_git"]
