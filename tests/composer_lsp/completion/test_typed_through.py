"""Suggestions served from memory while their text is typed or accepted."""

import pytest

from composer_lsp.completion.typed_through import TypedThrough
from tests.composer_lsp.completion.drawn import drawn

SUGGESTION = 'compute(first, "b")\n    return total'
SHOWN = "def f():\n    total = ˇ\n\nx = 1\n"


def shown(picture: str = SHOWN, suggestion: str = SUGGESTION) -> TypedThrough:
    memory = TypedThrough()
    document = drawn(picture)
    memory.remember(document.text, document.offset, suggestion)
    return memory


def rest(memory: TypedThrough, picture: str) -> str | None:
    document = drawn(picture)
    return next(memory.rests(document.text, document.offset), None)


def test_every_typed_character_is_served_to_the_end() -> None:
    memory = shown()
    for num_typed in range(len(SUGGESTION)):
        picture = SHOWN.replace("ˇ", SUGGESTION[:num_typed] + "ˇ")
        assert rest(memory, picture) == SUGGESTION[num_typed:]
    assert rest(memory, SHOWN.replace("ˇ", SUGGESTION + "ˇ")) is None


def test_other_text_at_the_start_of_a_document() -> None:
    """There is little or nothing before the cursor by which to find the place again."""
    assert rest(shown("ˇ\n", "alpha"), "betaˇ\n") is None
    assert rest(shown("xˇ\n", "alpha"), "xxˇ\n") is None


def test_deleting_leads_back() -> None:
    memory = shown()
    for typed in ("compute(", "comp", "", "c"):
        assert rest(memory, SHOWN.replace("ˇ", typed + "ˇ")) == SUGGESTION[len(typed) :]


@pytest.mark.parametrize(
    ("typed", "inserted", "served"),
    [
        ("compute(", ")", 'first, "b"'),
        ("compute(fir", ")", 'st, "b"'),
        ('compute(first, "', '")', "b"),
        ('compute(first, "b"', ")", None),
        ('compute(first, "b")', "", "\n    return total"),
    ],
)
def test_brackets_that_the_editor_closed(typed: str, inserted: str, served: str | None) -> None:
    assert rest(shown(), SHOWN.replace("ˇ", f"{typed}ˇ{inserted}")) == served


def test_element_that_the_editor_closed() -> None:
    memory = shown("ˇ\n", "<b>bold</b> text")
    assert rest(memory, "<b>ˇ</b>\n") == "bold"
    assert rest(memory, "<b>bold</b>ˇ\n") == " text"


@pytest.mark.parametrize(
    "picture",
    [
        SHOWN.replace("ˇ", "xˇ"),
        SHOWN.replace("ˇ", "compute(otherˇ"),
        SHOWN.replace("total = ˇ", "totalˇ"),
        SHOWN.replace("ˇ\n", "ˇ + 1\n"),
        "ˇ",
        "x = ˇ",
        SHOWN.replace("ˇ", "") + "ˇ",
    ],
    ids=["other", "other-later", "before-it", "text-after", "empty", "elsewhere", "end"],
)
def test_other_places_get_nothing(picture: str) -> None:
    assert rest(shown(), picture) is None


def test_edits_elsewhere_do_not_end_it() -> None:
    assert rest(shown(), "import a\n" * 50 + SHOWN + "y = 2\n" * 100) is None
    long_shown = "# line\n" * 60 + SHOWN + "z = 3\n" * 60
    memory = shown(long_shown)
    assert rest(memory, "import a\n" + long_shown + "more\n") == SUGGESTION


def test_older_suggestion_is_found_again() -> None:
    memory = shown("aˇ\n", "bcdef")
    document = drawn("abXˇ\n")
    memory.remember(document.text, document.offset, "YZ")
    assert rest(memory, "abXˇ\n") == "YZ"
    assert rest(memory, "abˇ\n") == "cdef"


def test_newest_goes_first_and_forget_drops_all() -> None:
    memory = shown("aˇ\n", "bc")
    document = drawn("aˇ\n")
    memory.remember(document.text, document.offset, "other")
    assert rest(memory, "aˇ\n") == "other"
    memory.forget()
    assert rest(memory, "aˇ\n") is None


def test_crlf() -> None:
    memory = shown("if a:\r\n    ˇ\r\n", "b()\r\n    c()")
    assert rest(memory, "if a:\r\n    b()\r\n    ˇ\r\n") == "c()"
