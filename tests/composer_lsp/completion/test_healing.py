import pytest

from composer_lsp.completion.healing import split_last_token, without_start


@pytest.mark.parametrize(
    ("prefix", "held"),
    [
        ("def f():\n", ""),
        ("def f():\n    ", " "),
        ("def f():\n\t", "\t"),
        ("def f():\n    retu", " retu"),
        ("retu", "retu"),
        ("x = ", " "),
        ("x =", " ="),
        ("x = fo", " fo"),
        ("f(", "("),
        ("f(sel", "(sel"),
        ("self.", "."),
        ("self.app", ".app"),
        ("get_na", "_na"),
        ("x = 12", ""),
        ("x1", ""),
        ("a  ", " "),
        ('print("', '("'),
        ("μέσ", "μέσ"),
        ("", ""),
        ("# " + "=" * 60, "=" * 16),
        ("computeTheVeryLongNameOfSome", "Some"),
        ("x" * 60, ""),
    ],
)
def test_last_token(prefix: str, held: str) -> None:
    assert split_last_token(prefix) == (prefix.removesuffix(held), held)


@pytest.mark.parametrize(
    ("answer", "starts_with", "rest"),
    [
        (" foo(1)", " fo", "o(1)"),
        ("foo(1)", " fo", "o(1)"),
        ("bar", " fo", None),
        (" ", " fo", None),
        ("[1]", " ", "[1]"),
        (" [1]", " ", "[1]"),
        ("\nx", " ", "\nx"),
        ("anything", "", "anything"),
    ],
)
def test_answer_behind_the_held_text(answer: str, starts_with: str, rest: str | None) -> None:
    assert without_start(answer, starts_with) == rest
