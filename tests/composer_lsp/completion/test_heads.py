"""What a prompt keeps of the text above its beginning, which `ˇ` marks."""

import pytest

from composer_lsp.completion.heads import heads_above
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.tokens import estimated_tokens
from tests.composer_lsp.completion.drawn import drawn

CASES = {
    "a method in Python": (
        "python",
        '"""Docs."""\nimport os\nfrom a import (\n    b,\n)\n\nclass C(B):\n    x = 1\n\n'
        "    def f(\n        self,\n    ):\n        a = 1\nˇ        b = 2\n",
        "import os\nfrom a import (\n    b,\n)\nclass C(B):\n    def f(\n        self,\n    ):\n",
    ),
    "between two functions": ("python", "import os\n\ndef f():\n    pass\n\nˇdef g():\n    pass\n", "import os\n"),
    "a loop in TypeScript": (
        "typescript",
        'import { a } from "./a";\n\nclass C extends B {\n  f(x: number): void {\n    for (const y of x) {\n'
        "      a(y);\nˇ      a(y);\n    }\n  }\n}\n",
        'import { a } from "./a";\nclass C extends B {\n  f(x: number): void {\n    for (const y of x) {\n',
    ),
    "Go": (
        "go",
        'package p\n\nimport "fmt"\n\nfunc (s *S) f(\n\tx int,\n) error {\n\tfmt.Println(x)\nˇ\treturn nil\n}\n',
        'package p\nimport "fmt"\nfunc (s *S) f(\n\tx int,\n) error {\n',
    ),
    "Rust": (
        "rust",
        "use a::b;\n\nimpl S {\n    fn f(&self) -> u8 {\n        b();\nˇ        1\n    }\n}\n",
        "use a::b;\nimpl S {\n    fn f(&self) -> u8 {\n",
    ),
    "a brace on its own line": (
        "cpp",
        "#include <a>\nint f(int x)\n{\n  x++;\nˇ  return x;\n}\n",
        "#include <a>\nint f(int x)\n",
    ),
    "inside a function's head": ("python", "import os\ndef f(\nˇ    a,\n):\n    pass\n", "import os\ndef f(\n"),
    "code that does not parse": (
        "python",
        "import os\nclass C:\n    def f(self):\n        a = (\nˇ        b = 2\n    def g(self):\n        pass\n",
        None,
    ),
    "a language without a grammar": ("plaintext", "a\nˇb\n", ""),
    "the beginning": ("python", "ˇimport os\n", ""),
}  # fmt: skip


@pytest.mark.parametrize(("language_id", "text", "heads"), CASES.values(), ids=CASES)
def test_imports_and_heads(language_id: str, text: str, heads: str | None) -> None:
    place = drawn(text)
    found = heads_above(place.text, place.offset, language_id, max_tokens=1000)
    if heads is not None:
        assert found == heads
    assert all(line in place.text for line in found.splitlines())


def test_heads_before_imports_where_there_is_no_room_for_both() -> None:
    place = drawn(
        "import os\nimport sys\nclass C:\n    def f(self):\n        a = 1\nˇ        b = 2\n"
    )
    heads = "class C:\n    def f(self):\n"
    num_tokens = sum(estimated_tokens(f"{line}\n") for line in ("class C:", "    def f(self):"))
    room = num_tokens + estimated_tokens("import os\n")
    found = heads_above(place.text, place.offset, "python", max_tokens=num_tokens)
    assert found == heads
    found = heads_above(place.text, place.offset, "python", max_tokens=room)
    assert found == f"import os\n{heads}"


def test_a_window_inside_a_long_method_keeps_its_heads() -> None:
    body = "".join(f"        value_{number} = {number}\n" for number in range(300))
    place = drawn(f"import os\r\n\r\nclass C:\r\n    def f(self):\r\n{body}        x = ˇ\r\n")
    window = PromptWindow()
    first = window.prompt(place.text, place.offset, context_tokens=600, language_id="python")
    assert first.prefix.startswith("import os\nclass C:\n    def f(self):\n        value_")
    assert first.prefix.endswith("value_299 = 299\n        x = ")
    assert estimated_tokens(first.prefix) <= 400
    typed = f"{place.text[: place.offset]}a + b{place.text[place.offset :]}"
    second = window.prompt(typed, place.offset + 5, context_tokens=600, language_id="python")
    assert second.prefix == f"{first.prefix}a + b"
