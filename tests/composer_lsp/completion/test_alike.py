"""The most alike piece of another document."""

from composer_lsp.completion.alike import WINDOW_LINES, most_alike, names_near

FILLER = "\n".join(f"filler_{number} = 0" for number in range(60))


def test_the_piece_with_most_of_the_names() -> None:
    text = f"{FILLER}\ndef read_table(path, delimiter, encoding):\n    return open(path)\n{FILLER}"
    found = most_alike(text, frozenset({"read_table", "path", "delimiter", "encoding", "other"}))
    assert found is not None
    assert "def read_table" in found.text
    assert text.splitlines()[found.first_line - 1 :][:WINDOW_LINES] == found.text.split("\n")
    assert found.share == 0.8


def test_names_that_are_far_apart_are_not_together() -> None:
    text = f"alpha\n{FILLER}\nbeta\n{FILLER}\ngamma"
    assert most_alike(text, frozenset({"alpha", "beta", "gamma"})) is None


def test_names_before_the_cursor_and_on_its_line() -> None:
    text = "first(one)\nsecond(two) + third\nfourth"
    assert names_near(text, text.index("two")) == {"first", "one", "second", "two", "third"}


def test_an_empty_document_has_nothing() -> None:
    assert most_alike("", frozenset({"alpha", "beta", "gamma"})) is None


def test_of_a_line_of_data_only_the_beginning_is_looked_at() -> None:
    names = frozenset({"alpha", "beta", "gamma"})
    assert most_alike(f"alpha beta gamma {'x, ' * 400}", names) is not None
    assert most_alike(f"{'x, ' * 400} alpha beta gamma", names) is None
