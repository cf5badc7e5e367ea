"""Names of languages that a search is narrowed to."""

import pytest

from composer_index.languages import LANGUAGES
from composer_index.search.language_filter import LanguageError, check_language


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_of_the_table_is_one(name: str):
    check_language(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pyhton", "'pyhton' is no language that the index knows; perhaps python"),
        ("Python", "perhaps python"),
        ("py", "perhaps python"),
        ("bash", "perhaps shellscript"),
        ("c++", "perhaps cpp"),
        ("rs", "perhaps rust"),
        ("javascripts", "perhaps javascript or javascriptreact"),
        ("klingon", "perhaps kotlin"),
        ("zzz", "there are python, javascript, "),
        ("\x1b[31m", r"'\x1b[31m' is no language"),
    ],
)
def test_another_name_is_told_with_what_may_be_meant(name: str, meant: str):
    with pytest.raises(LanguageError) as caught:
        check_language(name)
    assert meant in str(caught.value)
