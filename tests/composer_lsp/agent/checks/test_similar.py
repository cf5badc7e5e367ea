"""How alike two functions are."""

import pytest

from composer_lsp.agent.checks.similar import MIN_TOKENS, likeness, names_alike, shape_of

PYTHON = """\
def total_of(orders, *, currency: str = "EUR") -> Decimal:
    '''Sum what is paid.'''
    amount = Decimal(0)
    for order in orders:
        if order.is_paid and order.currency == currency:  # The others wait.
            amount += order.price * order.count
    return round_money(amount, currency)
"""
OWN_NAMES = """\
def paid_sum(items, unit):
    result = Decimal(0)
    for it in items:
        if it.is_paid and it.currency == unit:
            result += it.price * it.count
    return round_money(result, unit)
"""


def body_likeness(one: str, other: str) -> float:
    return likeness(shape_of(one, "total_of"), shape_of(other, "paid_sum"))


def test_names_comments_and_the_head_are_the_authors_choice() -> None:
    assert body_likeness(PYTHON, OWN_NAMES) == 1.0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("is_paid", "is_open"),
        ("round_money", "ceil_money"),
        ("+=", "-="),
        ("Decimal(0)", "Decimal(1)"),
    ],
    ids=["attribute", "call", "sign", "literal"],
)
def test_attributes_calls_signs_and_literals_count(old: str, new: str) -> None:
    assert 0.5 < body_likeness(PYTHON, OWN_NAMES.replace(old, new)) < 1.0


def test_nothing_is_like_nothing() -> None:
    assert body_likeness("", "") == 0.0


def test_an_accessor_is_trivial() -> None:
    shape = shape_of("def name(self):\n    return self._row.name\n", "name")
    assert shape.num_tokens < MIN_TOKENS
    assert shape.is_trivial
    assert not shape_of(PYTHON, "total_of").is_trivial


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [
        ("parse_urls", "parseURL", 1.0, 1.0),
        ("load_config", "load_configs_file", 0.6, 0.7),
        ("to_slug", "slugify", 0.0, 0.0),
        ("_", "__", 0.0, 0.0),
    ],
)
def test_names_are_compared_by_words(one: str, other: str, least: float, most: float) -> None:
    assert least <= names_alike(one, other) <= most
