import pytest

from composer_lsp.cli.ago import ago


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3599, "59 minutes ago"),
        (3600, "1 hour ago"),
        (200_000, "2 days ago"),
    ],
)
def test_ago(seconds: float, words: str):
    assert ago(seconds) == words
