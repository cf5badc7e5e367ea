"""The prompt window: what stays the same from one keystroke to the next."""

import pytest

from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.tokens import estimated_tokens
from tests.composer_lsp.completion.drawn import drawn

CONTEXT_TOKENS = 300
AFTER = "".join(f"    value_{number} = compute(value_{number})\n" for number in range(60))
BEFORE = "".join(f"name_{number} = {number}\n" for number in range(60))


def at(window: PromptWindow, picture: str) -> FimPrompt:
    document = drawn(picture)
    return window.prompt(document.text, document.offset, context_tokens=CONTEXT_TOKENS)


def num_tokens(prompt: FimPrompt) -> int:
    return estimated_tokens(prompt.prefix) + estimated_tokens(prompt.suffix)


def test_small_document_is_taken_whole() -> None:
    assert at(PromptWindow(), "a = 1\nbˇ\nc = 2\n") == FimPrompt(
        prefix="a = 1\nb", suffix="\nc = 2\n"
    )


def test_large_document_is_cut_at_lines_within_the_budget() -> None:
    prompt = at(PromptWindow(), f"{BEFORE}xˇ\n{AFTER}")
    assert BEFORE.endswith("\n" + prompt.prefix.removesuffix("x"))
    assert AFTER.startswith(prompt.suffix.removeprefix("\n"))
    assert prompt.suffix.endswith("\n")
    assert num_tokens(prompt) <= CONTEXT_TOKENS
    assert estimated_tokens(prompt.prefix) > CONTEXT_TOKENS // 3
    assert estimated_tokens(prompt.suffix) > CONTEXT_TOKENS // 4


def test_one_long_line_is_cut_anywhere() -> None:
    prompt = at(PromptWindow(), "x" * 5000 + "ˇ" + "y" * 5000)
    assert 0 < num_tokens(prompt) <= CONTEXT_TOKENS


@pytest.mark.parametrize(
    ("text", "chars_per_token"),
    [
        ("1, 2, 3, 44, 57, 9,\n" * 400, 1.05),
        (
            "\n".join(["QGtlbGx5IHNhaWQ6IFRoZSBxdWljayBicm93biBmb3gganVtcHMgb3ZlciB0aGU"] * 100),
            1.33,
        ),
        ("0f3a9c77" * 900, 1.13),
        ("我们在这里测试一个很长的中文句子，看看每个字需要多少个词元。\n" * 200, 1.67),
        ("यह टोकन गिनने के लिए एक बहुत लंबा वाक्य है।\n" * 200, 1.02),
        ("Αυτή είναι μια πολύ μεγάλη πρόταση.\n" * 200, 1.2),
        ("🎉🙂🚀" * 2000, 0.8),
    ],
    ids=["digits", "base64", "hex", "chinese", "hindi", "greek", "emoji"],
)
def test_dense_text_stays_near_the_budget(text: str, chars_per_token: float) -> None:
    """The engine's context is twice the budget or more. Measured with Qwen2.5-Coder's tokenizer."""
    prompt = PromptWindow().prompt(text, len(text) // 2, context_tokens=1500)
    num_chars = len(prompt.prefix) + len(prompt.suffix)
    assert 500 < num_chars / chars_per_token < 2000


def test_code_keeps_three_characters_a_token() -> None:
    code = "def total(items):\n    return sum(item.price for item in items)\n"
    assert estimated_tokens(code) == -(-len(code) // 3)


def test_crlf_reaches_the_model_as_newlines() -> None:
    assert at(PromptWindow(), "a\r\nbˇ\r\nc\r\n") == FimPrompt(prefix="a\nb", suffix="\nc\n")


@pytest.mark.parametrize(
    ("typed", "inserted"),
    [
        ("return value", lambda typed: ""),
        ("call(first[0", lambda typed: ")]"[: typed.count("(") + typed.count("[")][::-1]),
        ('print("hello', lambda typed: {0: "", 1: ")"}.get(typed.count("(") + typed.count('"'), '")')),
        ("if a {\n    b", lambda typed: "\n}" if "\n" in typed else "}" * typed.count("{")),
        ("<div>text", lambda typed: "</div>" if ">" in typed else ""),
    ],
    ids=["plain", "brackets", "quotes", "brace-and-enter", "element"],
)  # fmt: skip
def test_typing_only_appends_to_the_prompt(typed: str, inserted: object) -> None:
    assert callable(inserted)
    window = PromptWindow()
    first = at(window, f"{BEFORE}ˇ\n{AFTER}")
    for num_typed in range(1, len(typed) + 1):
        text = typed[:num_typed]
        prompt = at(window, f"{BEFORE}{text}ˇ{inserted(text)}\n{AFTER}")
        assert prompt.suffix == first.suffix
        assert prompt.prefix == first.prefix + text


def test_frozen_suffix_at_the_end_of_a_document() -> None:
    window = PromptWindow()
    assert at(window, "fooˇ").suffix == ""
    assert at(window, "foo(ˇ)").suffix == ""
    assert at(window, "foo(ˇ) + 1").suffix == ") + 1"


@pytest.mark.parametrize(
    "moved",
    [
        f"{BEFORE}ˇx = call(\n{AFTER}",
        f"ˇ{BEFORE}x\n{AFTER}",
        f"{BEFORE}x\n{AFTER[:400]}ˇ{AFTER[400:]}",
        f"{BEFORE}xˇ\nnew_line = 1\n{AFTER}",
    ],
    ids=["back-on-the-line", "to-the-top", "down", "edit-below"],
)
def test_another_place_gets_its_own_suffix(moved: str) -> None:
    window = PromptWindow()
    at(window, f"{BEFORE}xˇ\n{AFTER}")
    prompt = at(window, moved)
    fresh = at(PromptWindow(), moved)
    assert prompt.suffix == fresh.suffix


def test_moving_back_before_a_closing_bracket_ends_the_session() -> None:
    window = PromptWindow()
    at(window, f"{BEFORE}ˇ\n{AFTER}")
    at(window, f"{BEFORE}call(a)ˇ\n{AFTER}")
    assert at(window, f"{BEFORE}call(aˇ)\n{AFTER}").suffix.startswith(")\n")


def test_edit_above_moves_the_window_along() -> None:
    window = PromptWindow()
    first = at(window, f"{BEFORE}xˇ\n{AFTER}")
    moved = at(window, f"import added\n{BEFORE}xyˇ\n{AFTER}")
    assert moved == FimPrompt(prefix=first.prefix + "y", suffix=first.suffix)


def test_start_moves_only_when_the_budget_is_spent() -> None:
    window = PromptWindow()
    typed = ""
    starts: list[str] = []
    for number in range(200):
        typed += f"t{number} = 1\n"
        prompt = at(window, f"{BEFORE}{typed}ˇ\n{AFTER}")
        assert num_tokens(prompt) <= CONTEXT_TOKENS
        starts.append(prompt.prefix[:12])
    assert 1 < len(dict.fromkeys(starts)) < 20


def test_cursor_near_the_start_of_the_window_gets_more_before_it() -> None:
    window = PromptWindow()
    at(window, f"{BEFORE}{AFTER}ˇ")
    prompt = at(window, f"{BEFORE}{AFTER[:-600]}ˇ{AFTER[-600:]}")
    assert estimated_tokens(prompt.prefix) > CONTEXT_TOKENS // 3


def test_jumping_around_never_loses_the_cursor() -> None:
    window = PromptWindow()
    text = BEFORE + AFTER
    for offset in [0, 1, 1500, 1490, 1510, len(text), 5, 900, 10, len(text) - 1]:
        prompt = window.prompt(text, offset, context_tokens=CONTEXT_TOKENS)
        assert text[:offset].endswith(prompt.prefix)
        assert prompt.suffix in text[offset:]


@pytest.mark.parametrize("picture", ["ˇ", "\nˇ\n", "fn mˇ", "// Counts words.\nuse ˇ\n"])
def test_new_file_is_known_by_its_path(picture: str) -> None:
    document = drawn(picture)
    prompt = PromptWindow().prompt(
        document.text, document.offset, context_tokens=300, path="/home/me/app/src/main.rs"
    )
    assert prompt.path == "src/main.rs"


def test_text_that_shows_its_language_needs_no_path() -> None:
    document = drawn(f"{BEFORE[:200]}ˇ")
    prompt = PromptWindow().prompt(
        document.text, document.offset, context_tokens=300, path="/w/main.py"
    )
    assert prompt.path == ""
