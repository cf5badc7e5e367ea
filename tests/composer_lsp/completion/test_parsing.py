"""What is loaded before the first suggestion needs it."""

import pytest

from composer_index.parsing import grammar
from composer_lsp.completion.parsing import ParsedWith, load_grammar
from composer_lsp.completion.surroundings import Surroundings


@pytest.mark.parametrize("language_id", ["python", "typescript", "go"])
def test_a_loaded_grammar_is_what_a_suggestion_is_parsed_with(language_id: str) -> None:
    grammar.load.cache_clear()
    load_grammar(language_id)
    num_loaded = grammar.load.cache_info().misses
    around = Surroundings.of("f(", 2, language_id=language_id, num_indent_spaces=None)
    assert ParsedWith(around).num_errors("") == 1
    assert grammar.load.cache_info().misses == num_loaded == 1


@pytest.mark.parametrize("language_id", ["", "plaintext", "no such language"])
def test_languages_without_a_grammar(language_id: str) -> None:
    load_grammar(language_id)
