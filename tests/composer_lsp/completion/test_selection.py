"""Which pieces of other files are chosen, and when they give way to others."""

from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.completion.repository import NO_CONTEXT, RepositoryContext
from composer_lsp.completion.selection import MAX_SNIPPET_TOKENS, Candidate, select
from composer_lsp.completion.tokens import estimated_tokens


def piece(name: str, worth: float, *, lines: int = 4, first_line: int = 1) -> Candidate:
    text = "\n".join(f"{name}_{number} = {number}" for number in range(lines))
    return Candidate(path=f"{name[0]}.py", text=text, worth=worth, first_line=first_line)


def paths(context: RepositoryContext) -> list[str]:
    return [each.path for each in context.snippets]


def test_the_worthiest_that_fit() -> None:
    candidates = [piece("a", 0.5), piece("b", 0.9), piece("c", 0.8, lines=200), piece("d", 0.1)]
    chosen = select(candidates, max_tokens=100, present=NO_CONTEXT, name="w")
    assert (chosen.repository, paths(chosen)) == ("w", ["b.py", "a.py", "d.py"])


def test_one_of_two_pieces_that_overlap() -> None:
    whole, part = piece("a", 0.9, lines=8), piece("a", 0.8, lines=3, first_line=4)
    below = piece("a", 0.7, first_line=9)
    chosen = select([part, below, whole], max_tokens=500, present=NO_CONTEXT)
    assert [each.text.count("\n") for each in chosen.snippets] == [7, 3]


def test_a_long_piece_is_cut_at_a_line() -> None:
    [snippet] = select([piece("a", 1.0, lines=500)], max_tokens=2000, present=NO_CONTEXT).snippets
    assert estimated_tokens(snippet.text) <= MAX_SNIPPET_TOKENS
    assert piece("a", 1.0, lines=500).text.startswith(f"{snippet.text}\n")


def test_what_stays_keeps_its_place() -> None:
    present = select([piece("a", 0.5), piece("b", 0.4)], max_tokens=500, present=NO_CONTEXT)
    more = [piece("c", 0.9), piece("b", 0.6), piece("a", 0.5)]
    assert paths(select(more, max_tokens=500, present=present)) == ["a.py", "b.py", "c.py"]


def test_what_the_users_edits_change_stands_last() -> None:
    edit = Candidate(path="e.py", text="-a\n+b", worth=1.0, is_volatile=True)
    chosen = select([edit, piece("a", 0.1)], max_tokens=500, present=NO_CONTEXT)
    assert paths(chosen) == ["a.py", "e.py"]


def test_a_small_gain_changes_nothing() -> None:
    present = select([piece("a", 0.9)], max_tokens=40, present=NO_CONTEXT)
    better = [piece("a", 0.9), piece("b", 0.95)]
    assert select(better, max_tokens=40, present=present) is present
    much_better = [piece("a", 0.3), piece("b", 0.95)]
    assert paths(select(much_better, max_tokens=40, present=present)) == ["b.py"]


def test_a_piece_that_no_longer_matters_stays_until_there_are_better_ones() -> None:
    present = select([piece("a", 0.9), piece("b", 0.8)], max_tokens=70, present=NO_CONTEXT)
    assert select([piece("b", 0.8)], max_tokens=70, present=present) is present
    assert paths(select([piece("c", 0.8)], max_tokens=70, present=present)) == ["c.py"]


def test_a_piece_whose_text_changed_is_replaced() -> None:
    present = select([piece("a", 0.9)], max_tokens=100, present=NO_CONTEXT)
    changed = piece("a", 0.9, lines=5)
    [snippet] = select([changed], max_tokens=100, present=present).snippets
    assert snippet.text == changed.text


def test_what_is_too_much_leaves() -> None:
    present = select([piece("a", 0.9), piece("b", 0.8)], max_tokens=100, present=NO_CONTEXT)
    assert (
        len(select([piece("a", 0.9), piece("b", 0.8)], max_tokens=45, present=present).snippets)
        == 1
    )
    assert select([], max_tokens=0, present=present).snippets == ()


CANDIDATES = st.lists(
    st.builds(
        piece,
        st.sampled_from("abcdef"),
        st.floats(0, 1),
        lines=st.integers(1, 30),
        first_line=st.integers(1, 60),
    ),
    max_size=8,
)


@given(first=CANDIDATES, second=CANDIDATES, max_tokens=st.integers(0, 600))
def test_never_more_than_the_budget_and_the_same_again(
    first: list[Candidate], second: list[Candidate], max_tokens: int
) -> None:
    present = select(first, max_tokens=max_tokens, present=NO_CONTEXT)
    for candidates in (first, second):
        chosen = select(candidates, max_tokens=max_tokens, present=present)
        assert sum(estimated_tokens(each.text) for each in chosen.snippets) <= max_tokens
        assert select(candidates, max_tokens=max_tokens, present=chosen) is chosen


def test_a_piece_that_begins_with_a_line_too_long_to_fit_is_left_out() -> None:
    data = Candidate(path="data.min.js", text="[" + "some_name, " * 45_000 + "]", worth=0.9)
    other = Candidate(path="b.py", text="def helper(): ...", worth=0.1)
    chosen = select([data, other], max_tokens=2048, present=NO_CONTEXT)
    assert [each.path for each in chosen.snippets] == ["b.py"]


def test_pieces_that_say_the_same_stand_there_once() -> None:
    same = [piece("a", worth, first_line=line) for worth, line in ((0.5, 1), (0.9, 50), (0.1, 90))]
    chosen = select(same, max_tokens=2048, present=NO_CONTEXT)
    assert len(chosen.snippets) == 1
    assert select(same, max_tokens=2048, present=chosen) is chosen
