"""What a candidate's name, kind and place change."""

import pytest

from composer_index.search.boost import (
    EXACT_NAME,
    FUNCTION,
    NAME_COVERED,
    PROSE,
    QUESTION_COVERED,
    TEST,
    Candidate,
    boost,
    is_test,
)
from composer_index.words import query_words


def _boost(query: str, *names: str, path: str = "a.py", language: str = "python") -> float:
    candidate = Candidate(path=path, language=language, names=names, is_function=False)
    return boost(query, query_words(query), candidate)


def test_nothing_in_common_changes_nothing() -> None:
    assert _boost("read the file") == 1
    assert _boost("read the file", "Socket.close") == 1
    assert _boost("", "close") == 1


def test_names_count_by_the_words_they_share() -> None:
    # Two of the name's three words, two of the question's four.
    boosted = _boost("reads cached files quickly", "readFileNow")
    assert boosted == pytest.approx(1 + NAME_COVERED * 2 / 3 + QUESTION_COVERED * 2 / 4)


def test_the_best_name_of_a_chunk_counts() -> None:
    both = _boost("delete a key", "other", "delete_key")
    assert both == _boost("delete a key", "delete_key") > _boost("delete a key", "delete")


def test_an_identifier_in_the_question_finds_its_definition() -> None:
    exact = _boost("where is deleteKey used", "deleteKey")
    assert exact == pytest.approx(_boost("where is delete key used", "deleteKey") + EXACT_NAME)
    assert _boost("delete it", "delete") < 1 + NAME_COVERED + QUESTION_COVERED + EXACT_NAME


def test_a_function_is_preferred() -> None:
    candidate = Candidate(path="a.c", language="c", names=(), is_function=True)
    assert boost("free memory", ["fre", "memori"], candidate) == 1 + FUNCTION


def test_tests_and_documents_come_after_code() -> None:
    assert _boost("x", path="tests/a.py") == TEST
    assert _boost("x", path="docs/a.md", language="markdown") == PROSE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("src/app/__tests__/a.ts", True),
        ("pkg/server_test.go", True),
        ("src/a.spec.ts", True),
        ("test_a.py", True),
        ("examples/b.c", True),
        ("src/testing.py", False),
        ("src/latest/contest.py", False),
        ("src/attestation.c", False),
    ],
)
def test_tells_tests_by_their_path(path: str, expected: bool) -> None:
    assert is_test(path) is expected
