"""The code in an answer of a small model, and the path that it wrote to it."""

import pytest

from composer_lsp.agent.led.answers import CodeBlock, code_blocks

CODE = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("before", "info"),
    [
        ("src/shop.py", "python"),
        ("src/shop.py:", "python"),
        ("### `src/shop.py`", "python"),
        ("**src/shop.py**\n", "python"),
        ("Here is the file src/shop.py:", "python"),
        ("", "python src/shop.py"),
        ("", "python:src/shop.py"),
        ("", "python title=src/shop.py"),
        ("Sure.", "python\n# src/shop.py"),
        ("", "js\n// File: src/shop.py"),
    ],
)
def test_a_path_is_found(before: str, info: str) -> None:
    assert code_blocks(f"{before}\n```{info}\n{CODE}```\n") == [CodeBlock("src/shop.py", CODE)]


@pytest.mark.parametrize("before", ["", "Here it is:", "See e.g. below.", "The function f(x)."])
def test_a_sentence_is_no_path(before: str) -> None:
    assert code_blocks(f"{before}\n```python\n{CODE}```") == [CodeBlock("", CODE)]


def test_several_blocks_have_their_own_paths() -> None:
    answer = f"a.py\n```\n{CODE}```\nand\nb.py\n~~~python\n{CODE}~~~\n```python\nx = 1\n```"
    assert code_blocks(answer) == [
        CodeBlock("a.py", CODE),
        CodeBlock("b.py", CODE),
        CodeBlock("", "x = 1\n"),
    ]


@pytest.mark.parametrize("info", ["sh", "bash", "console", "diff", "text"])
def test_what_is_to_be_run_or_read_is_no_code(info: str) -> None:
    assert code_blocks(f"Run:\n```{info}\npip install toolz\n```") == []


def test_a_script_with_its_path_is_code() -> None:
    assert code_blocks("build.sh\n```bash\nset -e\n```") == [CodeBlock("build.sh", "set -e\n")]


def test_a_fence_that_is_not_closed_ends_with_the_answer() -> None:
    assert code_blocks(f"a.py\n```python\n{CODE}") == [CodeBlock("a.py", CODE)]


@pytest.mark.parametrize("answer", ["", "No code.", "```\n```", "```python\n\n```", "`x`"])
def test_an_answer_without_code_has_none(answer: str) -> None:
    assert code_blocks(answer) == []


def test_a_longer_fence_holds_a_shorter_one() -> None:
    answer = "a.md\n````\n```\nx\n```\n````"
    assert code_blocks(answer) == [CodeBlock("a.md", "```\nx\n```\n")]
