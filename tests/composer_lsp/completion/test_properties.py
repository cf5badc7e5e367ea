"""What holds for every document, cursor and answer."""

from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.trim import Trimmer
from composer_lsp.completion.typed_through import TypedThrough

LINES = st.sampled_from(
    [
        "",
        "    ",
        "def f(a, b):",
        "    return a + b",
        "\tif (x) {",
        "\t}",
        "}",
        "foo(bar[0], 'baz')",
        'print("μ🙂é")',
        "x = [1, 2,",
        "end",
        "<li>item</li>",
        "```",
        "<|endoftext|>",
        "self.total = compute(items)",
        "# don't",
    ]
)
FREE_TEXT = st.text(alphabet="ab(){}[]\"'`:;,. \t\n\r<|>μ🙂", max_size=40)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, int, str]:
    """Text with one kind of line ending, an offset, and the ending."""
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(st.lists(LINES, min_size=2, max_size=12))
    text = ending.join(lines)
    offset = draw(st.integers(0, len(text)))
    if text[offset - 1 : offset + 1] == "\r\n":
        offset += 1
    return text, offset, ending


ANSWERS = st.one_of(
    FREE_TEXT,
    st.builds("\n".join, st.lists(LINES, max_size=8)),
    st.builds("\r\n".join, st.lists(LINES, max_size=8)),
)


def trimmed(text: str, offset: int, answer: str, language: str = "python") -> str | None:
    trimmer = Trimmer(Surroundings.of(text, offset, language_id=language, num_indent_spaces=None))
    for char in answer:
        if trimmer.feed(char):
            break
    return trimmer.finish()


@given(documents(), ANSWERS)
def test_inserted_text_has_the_documents_line_endings(
    document: tuple[str, int, str], answer: str
) -> None:
    text, offset, ending = document
    found = trimmed(text, offset, answer)
    if found is None:
        return
    assert found.strip()
    if ending in text:
        rest = found.replace(ending, "")
        assert "\r" not in rest and "\n" not in rest
    accepted = text[:offset] + found + text[offset:]
    assert accepted.startswith(text[:offset]) and accepted.endswith(text[offset:])


@given(documents(), st.integers(1, 60))
def test_repeating_the_text_after_the_cursor_inserts_nothing_of_it(
    document: tuple[str, int, str], num_chars: int
) -> None:
    text, offset, _ = document
    after = text[offset:].replace("\r\n", "\n")
    found = trimmed(text, offset, after[: num_chars + len(after.partition("\n")[0])])
    if found is None:
        return
    first_line = after.partition("\n")[0].strip()
    if len(first_line) >= 3 and any(char.isalnum() for char in first_line):
        assert first_line not in found


@given(documents(), ANSWERS, st.integers(1, 20))
def test_larger_pieces_only_show_more_to_cut(
    document: tuple[str, int, str], answer: str, num_chars: int
) -> None:
    text, offset, _ = document
    trimmer = Trimmer(Surroundings.of(text, offset, language_id="python", num_indent_spaces=None))
    for start in range(0, len(answer), num_chars):
        if trimmer.feed(answer[start : start + num_chars]):
            break
    # A piece that reaches past the end of one rule may show that another one ends it earlier.
    assert (trimmed(text, offset, answer) or "").startswith((trimmer.finish() or "").rstrip())


@given(documents(), ANSWERS)
def test_what_is_shown_is_served_while_it_is_typed(
    document: tuple[str, int, str], answer: str
) -> None:
    text, offset, _ = document
    found = trimmed(text, offset, answer)
    if found is None:
        return
    memory = TypedThrough()
    memory.remember(text, offset, found)
    for num_typed in range(len(found)):
        typed = text[:offset] + found[:num_typed] + text[offset:]
        rest = next(memory.rests(typed, offset + num_typed), None)
        assert rest is None or found.endswith(rest)
        if found[num_typed:].strip():
            assert rest is not None


@given(st.lists(st.tuples(documents(), st.integers(10, 200)), max_size=5))
def test_prompt_is_always_text_around_the_cursor(
    steps: list[tuple[tuple[str, int, str], int]],
) -> None:
    window = PromptWindow()
    for (text, offset, _), context_tokens in steps:
        prompt = window.prompt(text, offset, context_tokens=context_tokens)
        before = text[:offset].replace("\r\n", "\n")
        after = text[offset:].replace("\r\n", "\n")
        assert before.endswith(prompt.prefix)
        assert prompt.suffix in after
