"""What holds for every document, cursor and answer."""

from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.completion.prompt import PromptWindow, with_newlines
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.trim import Trimmer
from composer_lsp.completion.typed_through import TypedThrough
from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding

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


LANGUAGES = st.sampled_from(["python", "typescript", "go", "rust", "lua", "html", "markdown"])
STATEMENTS = ["alpha = 1", "beta_value(2)", "gamma = delta(3)", "print(epsilon)", "zeta.eta(4, 5)"]


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, int, str]:
    """Text with one kind of line ending, an offset, and the ending."""
    ending = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = draw(st.lists(LINES, min_size=2, max_size=12))
    text = ending.join(lines)
    offset = draw(st.integers(0, len(text)))
    if text[offset - 1 : offset + 1] == "\r\n":
        offset += 1
    return text, offset, ending


ANSWERS = st.one_of(
    st.just("while a:\n    b()\n    c()\n"),
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


@given(documents(), ANSWERS, LANGUAGES)
def test_inserted_text_has_the_documents_line_endings(
    document: tuple[str, int, str], answer: str, language: str
) -> None:
    text, offset, ending = document
    found = trimmed(text, offset, answer, language)
    if found is None:
        return
    assert found.strip()
    if ending in text:
        rest = found.replace(ending, "")
        assert "\r" not in rest and "\n" not in rest


@given(documents(), ANSWERS, LANGUAGES, st.sampled_from(PositionEncoding))
def test_accepting_changes_nothing_outside_of_the_range(
    document: tuple[str, int, str], answer: str, language: str, encoding: PositionEncoding
) -> None:
    """As a client does it, which knows lines and characters of its encoding alone."""
    text, offset, _ = document
    found = trimmed(text, offset, answer, language)
    if found is None:
        return
    buffer = TextBuffer(text, encoding)
    cursor = buffer.position_at(offset)
    assert buffer.offset_at(cursor) == offset
    buffer.replace(cursor, cursor, found)
    assert buffer.text == text[:offset] + found + text[offset:]


@given(st.permutations(STATEMENTS), st.integers(0, 2), st.sampled_from(["\n", "\r\n"]))
def test_what_follows_the_cursor_is_not_said_again_behind_something_new(
    lines: list[str], num_above: int, ending: str
) -> None:
    """One statement is missing, and the model says it and goes on to the end."""
    above, (missing, *below) = lines[:num_above], lines[num_above:]
    before = "".join(line + ending for line in above)
    text = before + ending + ending.join(below) + ending
    found = trimmed(text, len(before), "\n".join([missing, *below, ""]))
    assert found == missing


@given(documents(), st.integers(1, 60))
def test_repeating_the_text_after_the_cursor_inserts_nothing_of_it(
    document: tuple[str, int, str], num_chars: int
) -> None:
    text, offset, _ = document
    after = with_newlines(text[offset:])
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
        before = with_newlines(text[:offset])
        after = with_newlines(text[offset:])
        assert before.endswith(prompt.prefix)
        assert prompt.suffix in after
