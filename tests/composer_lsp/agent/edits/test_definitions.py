"""Functions and classes, written anew, take the place of those that a file has."""

import pytest

from composer_lsp.agent.edits.definitions import (
    DefinitionError,
    definitions_replaced,
    names_defined,
    put_definitions,
)

FILE = """\
import os


class Parser:
    @property
    def size(self):
        return 1

    def feed(self, text):
        return text


def total(prices):
    return 0


LIMIT = 3
"""


def put(code: str, text: str = FILE, path: str = "src/shop.py") -> str:
    return put_definitions(path, text, code)


def test_a_function_takes_the_place_of_the_one_with_its_name() -> None:
    changed = put("def total(prices):\n    return sum(prices)")
    assert changed == FILE.replace("    return 0\n", "    return sum(prices)\n")


@pytest.mark.parametrize("margin", ["", "    "])
def test_a_method_alone_is_put_into_its_class(margin: str) -> None:
    code = f"{margin}def feed(self, text):\n{margin}    return text.strip()\n"
    assert put(code) == FILE.replace("return text\n", "return text.strip()\n")


def test_members_that_a_class_is_written_without_stay() -> None:
    changed = put(
        "class Parser:\n    def feed(self, text):\n        return 2\n\n    def end(self):\n        return 3\n"
    )
    assert "    @property\n    def size(self):\n        return 1\n" in changed
    assert (
        "    def feed(self, text):\n        return 2\n\n    def end(self):\n        return 3\n\n\ndef total"
        in changed
    )


def test_a_class_with_all_its_members_is_taken_as_a_whole() -> None:
    code = 'class Parser:\n    """Reads."""\n\n    size = 1\n\n    def feed(self, text):\n        return 2\n'
    assert put(code) == FILE.replace(FILE[FILE.index("class") : FILE.index("\n\ndef total")], code)


def test_decorators_stay_unless_others_are_written() -> None:
    assert "    @property\n    def size(self):\n        return 2\n" in put(
        "def size(self):\n    return 2\n"
    )
    changed = put("@cached_property\ndef size(self):\n    return 2\n")
    assert "    @cached_property\n    def size(self):\n        return 2\n" in changed
    assert "@property" not in changed


def test_what_is_new_stands_behind_the_rest() -> None:
    assert (
        put("def double(x):\n    return 2 * x\n") == f"{FILE}\n\ndef double(x):\n    return 2 * x\n"
    )


def test_imports_that_are_missing_are_added_behind_the_others() -> None:
    changed = put(
        "import os\nimport re\nfrom a import (\n    b,\n)\n\n\ndef total(prices):\n    return re\n"
    )
    assert changed.startswith("import os\nimport re\nfrom a import (\n    b,\n)\n\n\nclass Parser")


def test_a_file_without_imports_gets_them_before_its_code() -> None:
    changed = put(
        "import re\n\ndef f():\n    return re\n", '"""What it is."""\n\n\ndef f():\n    return 1\n'
    )
    assert changed == '"""What it is."""\n\n\nimport re\n\n\ndef f():\n    return re\n'


def test_line_ends_stay() -> None:
    changed = put("def total(prices):\n    return sum(prices)\n", FILE.replace("\n", "\r\n"))
    assert changed == FILE.replace("return 0\n", "return sum(prices)\n").replace("\n", "\r\n")


def test_braces_close_behind_a_new_member() -> None:
    text = "class Shop {\n  open() {\n    return 1;\n  }\n}\n"
    code = "class Shop {\n  close() {\n    return 2;\n  }\n}\n"
    changed = put_definitions("shop.js", text, code)
    assert (
        changed
        == "class Shop {\n  open() {\n    return 1;\n  }\n\n  close() {\n    return 2;\n  }\n}\n"
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def total(prices):\n    # ... rest of the code\n", "left out"),
        ("def total(prices):\n    # existing code here\n    return 1\n", "left out"),
        ("print(total([]))\n", "defines nothing"),
        ("", "defines nothing"),
    ],
)
def test_what_would_lose_code_is_refused(code: str, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        put(code)


def test_a_name_that_is_defined_twice_is_refused() -> None:
    text = "class A:\n    def f(self): return 1\n\n\nclass B:\n    def f(self): return 2\n"
    with pytest.raises(DefinitionError, match="lines 2, 6"):
        put("def f(self):\n    return 3\n", text)


@pytest.mark.parametrize(
    ("code", "replaced"),
    [
        ("def total(prices):\n    return 1\n", ["total"]),
        ("class Parser:\n    def feed(self, text):\n        return 2\n", ["feed"]),
        (
            "class Parser:\n    def size(self): return 1\n\n    def feed(self, text): return 2\n",
            ["Parser"],
        ),
        ("def fresh():\n    return 1\n", []),
    ],
)
def test_what_is_replaced_is_known_before(code: str, replaced: list[str]) -> None:
    assert [each.name for each in definitions_replaced("a.py", FILE, code)] == replaced


def test_names_are_those_on_the_outside() -> None:
    assert names_defined("a.py", FILE) == {"Parser", "total"}
