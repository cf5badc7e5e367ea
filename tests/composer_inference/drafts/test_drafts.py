"""Drafts over the decoding of known texts; `decode` takes of a draft what a model would."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_inference.drafts.drafter import MAX_DRAFT_TOKENS, Drafts
from tests.composer_inference.drafts.edits import Pieces, decode, edited, library_lines

MODULES = (
    "argparse.py",
    "ast.py",
    "difflib.py",
    "heapq.py",
    "inspect.py",
    "logging/__init__.py",
    "shutil.py",
    "subprocess.py",
    "tarfile.py",
    "textwrap.py",
)

tokens = st.lists(st.integers(0, 3), max_size=80)


@given(prompt=tokens, prediction=tokens, target=tokens, max_draft_tokens=st.integers(0, 100))
def test_whatever_the_drafts_the_text_is_the_same(
    prompt: list[int], prediction: list[int], target: list[int], max_draft_tokens: int
) -> None:
    drafts = Drafts(prompt, prediction)
    decoding = decode(target, drafts, max_draft_tokens=max_draft_tokens)
    assert decoding.token_ids == target
    assert decoding.num_steps <= len(target)
    assert decoding.num_drafted <= decoding.num_steps * min(max_draft_tokens, MAX_DRAFT_TOKENS)


@pytest.mark.parametrize("module", MODULES)
def test_a_file_with_a_twentieth_of_its_lines_changed_takes_a_tenth_of_the_steps(
    module: str,
) -> None:
    lines, news = library_lines(module, 300, first=100), library_lines("typing.py", 1500, first=300)
    pieces = Pieces()
    for seed in range(3):
        target = pieces.encode(edited(lines, 15, random.Random(seed), news))
        decoding = decode(target, Drafts([], pieces.encode("".join(lines))))
        assert decoding.num_steps * 10 <= len(target)
        assert decoding.num_wasted * 3 <= len(target)


@pytest.mark.parametrize("module", MODULES)
def test_the_old_text_in_the_prompt_does_almost_as_well(module: str) -> None:
    lines, news = library_lines(module, 300, first=100), library_lines("typing.py", 1500, first=300)
    pieces = Pieces()
    target = pieces.encode(edited(lines, 15, random.Random(0), news))
    decoding = decode(target, Drafts(pieces.encode("".join(lines))))
    assert decoding.num_steps * 8 <= len(target)


def test_an_unchanged_text_takes_the_fewest_steps() -> None:
    text = list(range(1000))
    decoding = decode(text, Drafts([], text))
    growing = [8, 16, 32]
    assert decoding.num_wasted == 0
    assert decoding.num_steps == len(growing) + -(-(1000 - sum(growing) - len(growing)) // 65)


def test_a_bad_draft_costs_little() -> None:
    pieces = Pieces()
    target = pieces.encode("".join(library_lines("heapq.py", 300)))
    prediction = pieces.encode("".join(library_lines("tarfile.py", 300)))
    decoding = decode(target, Drafts([], prediction))
    assert decoding.num_wasted * 2 <= len(target)


def test_drafts_of_chance_are_seldom_made() -> None:
    draw = random.Random(0)
    prediction, target = ([draw.randrange(8) for _ in range(5000)] for _ in range(2))
    decoding = decode(target, Drafts([], prediction))
    assert decoding.num_wasted * 3 <= len(target)


def test_drafts_shrink_after_early_misses_and_grow_again() -> None:
    text = list(range(1000))
    drafts = Drafts([], text)
    sizes: list[int] = []
    for place in (0, 9, 26, 59, 124):
        sizes.append(len(drafts.propose(100)))
        drafts.observe(text[place : place + sizes[-1] + 1])
    assert sizes == [8, 16, 32, 64, 64]
    place, sizes = 189, []
    for wrong in (True, True, False, False, False, False):
        sizes.append(len(drafts.propose(100)))
        num_right = 0 if wrong else sizes[-1]
        drafts.observe(
            [*text[place : place + num_right], -1] if wrong else text[place:][: num_right + 1]
        )
        place += num_right + 1
        if wrong:
            drafts.observe(text[place : place + 10])
            place += 10
    assert sizes == [64, 16, 4, 8, 16, 32]


def test_a_draft_that_is_right_in_part_keeps_its_length() -> None:
    text = list(range(1000))
    drafts = Drafts([], text)
    for place in (0, 100, 200, 300):
        assert drafts.propose(100) == text[place : place + 8]
        drafts.observe([*text[place : place + 5], -1])
        drafts.observe(text[place + 90 : place + 100])


@pytest.mark.parametrize(("num_wrong", "min_agreed"), [(0, 2), (1, 3), (3, 5), (4, 6), (20, 6)])
def test_after_wrong_drafts_more_has_to_agree(num_wrong: int, min_agreed: int) -> None:
    text = list(range(1000))
    drafts = Drafts([], text)
    for place in range(100, 100 + 10 * num_wrong, 10):
        assert drafts.propose(100)
        drafts.observe([-1, *text[place : place + 6]])
    drafts.observe([-1, *text[400 : 400 + min_agreed - 1]])
    assert drafts.propose(2) == []
    drafts.observe([text[400 + min_agreed - 1]])
    right = text[400 + min_agreed :][:2]
    assert drafts.propose(2) == right
    drafts.observe([*right, -1, *text[600:602]])
    assert drafts.propose(2) == text[602:604]
