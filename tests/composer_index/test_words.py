"""Words of code and prose, as BM25 and the embedding table see them."""

import pytest

from composer_index import words
from composer_index.words import query_words, split_words, stem, written_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("snake_case_name", "snak cas nam"),
        ("camelCaseName", "camel cas nam"),
        ("SCREAMING_CASE", "scream cas"),
        ("HTTPServer", "http server"),
        ("parseHTTP2Frame", "pars http 2 fram"),
        ("getURL URLs IDs", "get url url id"),
        ("utf8 SHA256_DIGEST", "utf 8 sha 256 digest"),
        ("__init__", "init"),
        ("a.b->c(d)", "a b c d"),
        ("x = x + 1", "x x 1"),
        ("naïve Straße", "naïve straße"),
        ("日本語 x", "日本 本語 x"),
        ("字", "字"),
        ("", ""),
        ("== \n\t -- _", ""),
        ("a " + "f" * 201 + " b", "a b"),
    ],
)
def test_splits_identifiers(text: str, expected: str) -> None:
    assert split_words(text) == expected.split()


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("cache caches cached caching", "cach"),
        ("query queries queried querying", "queri"),
        ("stop stops stopped stopping", "stop"),
        ("class classes", "class"),
        ("process processes processing", "process"),
        ("use uses used using", "us"),
        ("parse parses parsing parsed", "pars"),
        ("key keys", "key"),
        ("string strings", "string"),
        ("need needed", "need"),
    ],
)
def test_forms_of_a_word_meet(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


@pytest.mark.parametrize("word", ["status", "this", "speed", "bring", "ing", "ed", "s", "x"])
def test_keeps_what_is_no_ending(word: str) -> None:
    assert stem(word) == word


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MAX_REMEMBERED", 10)
    remembered = words._REMEMBERED  # pyright: ignore[reportPrivateUsage]
    assert split_words(" ".join(f"name_{number}" for number in range(1000)))[-1] == "999"
    assert len(remembered) <= 10


def test_a_question_s_words_are_distinct_and_ask_for_something() -> None:
    assert query_words("Where is the cache of the caches?") == ["wher", "cach"]
    assert query_words("to be or not to be") == ["to", "be", "or", "not"]
    assert query_words("") == []


def test_words_are_shown_as_they_are_written() -> None:
    text = "signedCookies of URLs, signing 网址解析 " + "x" * 500
    written = written_words(text)
    assert list(written) == list(dict.fromkeys(split_words(text)))
    assert [written[word] for word in split_words("sign cookie url")] == [
        "signed",
        "Cookies",
        "URLs",
    ]
