"""What a chunk is named by, of the definitions that begin in it."""

import pytest

from composer_index.chunk import ParsedFile
from composer_index.parsing import parse_file
from composer_index.store.naming import Naming, naming


def named(path: str, source: str) -> Naming:
    parsed = parse_file(path, source.encode())
    assert isinstance(parsed, ParsedFile)
    (only,) = naming(parsed)
    return only


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.ts", "interface Shop {\n  open: boolean;\n  sell(item: Item): void;\n}\n"),
        ("a.go", "type Shop interface {\n\tSell(item Item)\n}\n"),
        ("a.c", "struct Shop {\n  int open;\n  void (*sell)(int);\n};\n"),
        ("a.java", "interface Shop {\n  void sell(Item item);\n}\n"),
    ],
)
def test_what_is_only_declared_names_nothing(path: str, source: str) -> None:
    found = named(path, source)

    assert found.names == ("Shop",)
    assert not found.is_function


def test_a_class_and_its_methods_name_a_chunk() -> None:
    found = named("a.java", "class Shop {\n  int open;\n  void sell() {}\n}\n")

    assert found.names == ("Shop", "sell")
    assert found.is_function


def test_a_method_with_a_body_of_an_interface_names_a_chunk() -> None:
    source = "trait Shop {\n    fn open(&self);\n    fn sell(&self) {\n        pay()\n    }\n}\n"

    assert named("a.rs", source).names == ("Shop", "sell")
