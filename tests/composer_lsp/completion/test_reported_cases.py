"""Faults that users of other tools reported, in seven languages: what a document is after a suggestion
was accepted, given what a model plausibly answered there."""

import pytest

from composer_lsp.completion.typed_through import TypedThrough
from tests.composer_lsp.completion.drawn import Drawn, accept, drawn, trimmed

LANGUAGES = ("python", "typescript", "go", "rust", "lua", "html", "markdown")


def case(language: str, name: str, before: str, answer: str, after: str):
    return pytest.param(language, before, answer, after, id=f"{language}-{name}")


CLOSED_PAIR = [
    case("python", "call", "some_func(ˇ)", "a, b)\n", "some_func(a, bˇ)"),
    case("python", "call-in-call", "print(len(ˇ))", "xs))\n", "print(len(xsˇ))"),
    case("python", "quotes", 'open("ˇ")', 'a.txt")\n', 'open("a.txtˇ")'),
    case("python", "quotes-in-call", "open('ˇ', mode)", "a.txt', mode)", "open('a.txtˇ', mode)"),
    case("python", "docstring", 'def f():\n    """ˇ"""\n', 'Return "x"."""\n    return x\n', 'def f():\n    """Return "x".ˇ"""\n'),
    case("python", "f-string", 'f"{ˇ}"', 'name}"', 'f"{nameˇ}"'),
    case("typescript", "call", "items.map(ˇ);", "(item) => item.id);\n", "items.map((item) => item.idˇ);"),
    case("typescript", "quotes", 'import a from "ˇ";', './a";\n', 'import a from "./aˇ";'),
    case("typescript", "template", "log(`ˇ`);", "hello ${name}`);", "log(`hello ${name}ˇ`);"),
    case("typescript", "index", "const x = xs[ˇ];", "i + 1];\n", "const x = xs[i + 1ˇ];"),
    case("typescript", "block-in-call", "it('adds', () => {ˇ});", "\n  expect(1).toBe(1);\n});\n", "it('adds', () => {\n  expect(1).toBe(1);\nˇ});"),
    case("go", "call", "fmt.Println(ˇ)", "name, err)\n", "fmt.Println(name, errˇ)"),
    case("go", "quotes", 'errors.New("ˇ")', 'not found")\n', 'errors.New("not foundˇ")'),
    case("go", "rune", "x := 'ˇ'", "a'\n", "x := 'aˇ'"),
    case("go", "struct", "p := Point{ˇ}", "X: 1, Y: 2}\n", "p := Point{X: 1, Y: 2ˇ}"),
    case("rust", "macro", "println!(ˇ);", '"{}", name);\n', 'println!("{}", nameˇ);'),
    case("rust", "quotes", 'let s = "ˇ";', 'hello";\n', 'let s = "helloˇ";'),
    case("rust", "vec", "let v = vec![ˇ];", "1, 2, 3];\n", "let v = vec![1, 2, 3ˇ];"),
    case("rust", "closure", "xs.iter().map(ˇ)", "|x| x + 1).collect()", "xs.iter().map(|x| x + 1ˇ)"),
    case("lua", "call", "print(ˇ)", "name, value)\n", "print(name, valueˇ)"),
    case("lua", "quotes", "require('ˇ')", "composer.server')\n", "require('composer.serverˇ')"),
    case("lua", "table", "local t = {ˇ}", "a = 1, b = 2}\n", "local t = {a = 1, b = 2ˇ}"),
    case("html", "attribute", '<a href="ˇ">Home</a>', '/index.html">', '<a href="/index.htmlˇ">Home</a>'),
    case("html", "element", "<h1>ˇ</h1>", "Welcome</h1>\n", "<h1>Welcomeˇ</h1>"),
    case("html", "nested-element", "<p><b>ˇ</b></p>", "bold</b></p>", "<p><b>boldˇ</b></p>"),
    case("markdown", "link", "[docs](ˇ)", "docs/index.md) for more", "[docs](docs/index.mdˇ)"),
    case("markdown", "link-text", "See [ˇ](a.md).", "the guide](a.md).", "See [the guideˇ](a.md)."),
    case("markdown", "code", "Run `ˇ`", "make test` to test", "Run `make testˇ`"),
    case("markdown", "parenthesis", "It works (ˇ)", "so far)", "It works (so farˇ)"),
    case("python", "quotes-said-again", 'print("ˇ")', '"hello")\n', 'print("helloˇ")'),
    case("python", "docstring-said-again", '"""ˇ"""', '"""Doc."""\n', '"""Doc.ˇ"""'),
    case("python", "string-left-empty", 'x = f("ˇ")', '", "b")\n', 'x = f("ˇ")'),
    case("python", "line-end", "some_func(ˇ)", "(a, b)\n", "some_func((a, b)ˇ)"),
    case("python", "dict", 'd = {"a": ˇ}', '1, "b": 2}\nprint(d)\n', 'd = {"a": 1, "b": 2ˇ}'),
    case("typescript", "attribute", '<div className="ˇ">', '"a b">', '<div className="a bˇ">'),
    case("typescript", "object", "foo({ˇ});", "a: 1 });\n", "foo({a: 1ˇ});"),
    case("typescript", "spaced-object", "foo({ˇ});", " a: 1 });\n", "foo({ a: 1 ˇ});"),
    case("typescript", "object-of-lines", "foo({ˇ});", "\n  a: 1,\n", "foo({\n  a: 1,\nˇ});"),
    case("typescript", "type", "const a: Array<ˇ> = [];", "string> = [];", "const a: Array<stringˇ> = [];"),
    case("go", "block", "if err != nil {ˇ}", "\n\treturn err\n}\n", "if err != nil {\n\treturn err\nˇ}"),
    case("rust", "type", "fn f<ˇ>(x: T) {", "T: Clone>(x: T) {", "fn f<T: Cloneˇ>(x: T) {"),
    case("lua", "long-string", "local s = [[ˇ]]", "text]]\n", "local s = [[textˇ]]"),
    case("html", "attribute-said-again", '<a href="ˇ">', '"/x">', '<a href="/xˇ">'),
    case("html", "list", "<ul>ˇ</ul>", "\n  <li>a</li>\n</ul>", "<ul>\n  <li>a</li>\nˇ</ul>"),
    case("html", "comment", "<!-- ˇ -->", "a comment -->\n<p>", "<!-- a commentˇ -->"),
    case("markdown", "strong", "**ˇ**", "bold** text", "**boldˇ**"),
    case("markdown", "fence", "```py\nˇ\n```\n", "x = 1\n```\n", "```py\nx = 1ˇ\n```\n"),
]  # fmt: skip
"""Case 1: the editor closed the pair by itself."""

REPEATS = [
    case("python", "line-below", "def f(xs):\n    ˇ\n    return total\n", "total = sum(xs)\n    return total\n", "def f(xs):\n    total = sum(xs)ˇ\n    return total\n"),
    case("python", "lines-below", "x = 1\nˇ\nif x:\n    print(x)\n", "y = 2\nif x:\n    print(x)\n", "x = 1\ny = 2ˇ\nif x:\n    print(x)\n"),
    case("python", "rest-of-line", "value = ˇ if ready else None\n", "compute(x) if ready else None\n", "value = compute(x)ˇ if ready else None\n"),
    case("python", "only-line-below", "x = 1\nˇ\nreturn_value = compute(x)\n", "return_value = compute(x)\n", "x = 1\nˇ\nreturn_value = compute(x)\n"),
    case("python", "line-above", "import json\nˇ\n", "import json\n", "import json\nˇ\n"),
    case("python", "head", "    return selfˇ\n", "    return self.value\n", "    return self.valueˇ\n"),
    case("typescript", "line-below", "function f(a) {\n  ˇ\n  return total;\n}\n", "const total = a + 1;\n  return total;\n}\n", "function f(a) {\n  const total = a + 1;ˇ\n  return total;\n}\n"),
    case("typescript", "rest-of-line", "const x = ˇ ?? fallback;\n", "first() ?? fallback;\n", "const x = first()ˇ ?? fallback;\n"),
    case("typescript", "line-above", "counter.increment();\nconst names = list();\nˇ\n", "const names = list();\n", "counter.increment();\nconst names = list();\nˇ\n"),
    case("typescript", "head", "export const totalˇ\n", "export const total = 0;\n", "export const total = 0;ˇ\n"),
    case("go", "lines-below", "func f() error {\n\tˇ\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n", "_, err := open()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n", "func f() error {\n\t_, err := open()ˇ\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n"),
    case("go", "rest-of-line", "for _, x := range ˇ {\n\tg(x)\n}\n", "items {\n\tg(x)\n}\n", "for _, x := range itemsˇ {\n\tg(x)\n}\n"),
    case("go", "line-above", 'name := "value"\nˇ\n', 'name := "value"\n', 'name := "value"\nˇ\n'),
    case("go", "head", "x, err := ˇ\n", "x, err := open(path)\n", "x, err := open(path)ˇ\n"),
    case("rust", "line-below", "fn f(a: u8) -> u8 {\n    ˇ\n    total\n}\n", "let total = a + 1;\n    total\n}\n", "fn f(a: u8) -> u8 {\n    let total = a + 1;ˇ\n    total\n}\n"),
    case("rust", "rest-of-line", "let x = ˇ.unwrap_or(0);\n", "map.get(k).unwrap_or(0);\n", "let x = map.get(k)ˇ.unwrap_or(0);\n"),
    case("rust", "line-above", "use std::collections::HashMap;\nˇ\n", "use std::collections::HashMap;\n", "use std::collections::HashMap;\nˇ\n"),
    case("rust", "head", "let mut mapˇ\n", "let mut map = HashMap::new();\n", "let mut map = HashMap::new();ˇ\n"),
    case("lua", "line-below", "local function f(a)\n  ˇ\n  return total\nend\n", "local total = a + 1\n  return total\nend\n", "local function f(a)\n  local total = a + 1ˇ\n  return total\nend\n"),
    case("lua", "rest-of-line", "if ˇ then\n  g()\nend\n", "a == b then\n  g()\nend\n", "if a == bˇ then\n  g()\nend\n"),
    case("lua", "line-above", "local server = require('server')\nˇ\n", "local server = require('server')\n", "local server = require('server')\nˇ\n"),
    case("lua", "head", "local nameˇ\n", "local name = 'x'\n", "local name = 'x'ˇ\n"),
    case("html", "line-below", "<ul>\n  <li>one</li>\n  ˇ\n  <li>three and more</li>\n</ul>\n", "<li>two</li>\n  <li>three and more</li>\n</ul>\n", "<ul>\n  <li>one</li>\n  <li>two</li>ˇ\n  <li>three and more</li>\n</ul>\n"),
    case("html", "rest-of-line", '<img src="a.png" ˇ class="wide">\n', 'alt="A" class="wide">\n', '<img src="a.png" alt="A"ˇ class="wide">\n'),
    case("html", "line-above", '<meta charset="utf-8">\nˇ\n', '<meta charset="utf-8">\n', '<meta charset="utf-8">\nˇ\n'),
    case("html", "head", "<title>Myˇ\n", "<title>My page</title>\n", "<title>My page</title>ˇ\n"),
    case("markdown", "line-below", "# Use\n\nˇ\n\n## How to install it\n", "Run it.\n\n## How to install it\n", "# Use\n\nRun it.ˇ\n\n## How to install it\n"),
    case("markdown", "rest-of-line", "The ˇ jumps over the dog.\n", "quick fox jumps over the dog.\n", "The quick foxˇ jumps over the dog.\n"),
    case("markdown", "line-above", "The quick brown fox jumps.\nˇ\n", "The quick brown fox jumps.\n", "The quick brown fox jumps.\nˇ\n"),
    case("markdown", "head", "- Firstˇ\n", "- First of all\n", "- First of allˇ\n"),
    case("python", "comment-mark", "# ˇ\nx = 1\n", "# sum\nx = 1\n", "# sumˇ\nx = 1\n"),
    case("rust", "comment-mark", "/// ˇ\nfn f() {}\n", "/// Sums.\n", "/// Sums.ˇ\nfn f() {}\n"),
    case("lua", "comment-mark", "--ˇ\n", "-- Sums.\n", "-- Sums.ˇ\n"),
    case("markdown", "item-mark", "- one\n- ˇ\n- three\n", "- two\n- three\n", "- one\n- twoˇ\n- three\n"),
    case("markdown", "quotation-mark", "> one\n> ˇ\n", "> two\n", "> one\n> twoˇ\n"),
]  # fmt: skip
"""Case 2: what stands after the cursor, or just before it, is said again."""

INDENTED = [
    case("python", "tabs", "class A:\n\tdef f(self):\n\t\tˇ\n", "if self.x:\n            return 1\n", "class A:\n\tdef f(self):\n\t\tif self.x:\n\t\t\treturn 1ˇ\n"),
    case("python", "zero", "class A:\n    def f(self):\n        ˇ\n", "if self.x:\n    return 1\n", "class A:\n    def f(self):\n        if self.x:\n            return 1ˇ\n"),
    case("typescript", "tabs", "class A {\n\tf() {\n\t\tˇ\n\t}\n}\n", "if (x) {\n      g();\n    }\n", "class A {\n\tf() {\n\t\tif (x) {\n\t\t\tg();\n\t\t}ˇ\n\t}\n}\n"),
    case("typescript", "zero", "class A {\n  f() {\n    ˇ\n  }\n}\n", "if (x) {\n  g();\n}\n", "class A {\n  f() {\n    if (x) {\n      g();\n    }ˇ\n  }\n}\n"),
    case("typescript", "two-tabs", "function f() {\n\t\tg();\n\t\tˇ\n}\n", "if (x) {\n\t\t\t\th();\n\t\t}\n", "function f() {\n\t\tg();\n\t\tif (x) {\n\t\t\t\th();\n\t\t}ˇ\n}\n"),
    case("go", "tabs", "func f() {\n\tˇ\n}\n", "for {\n        g()\n    }\n", "func f() {\n\tfor {\n\t\tg()\n\t}ˇ\n}\n"),
    case("go", "zero", "func f() {\n\tˇ\n}\n", "for {\n\tg()\n}\n", "func f() {\n\tfor {\n\t\tg()\n\t}ˇ\n}\n"),
    case("rust", "tabs", "fn f() {\n\tˇ\n}\n", "if x {\n        g();\n    }\n", "fn f() {\n\tif x {\n\t\tg();\n\t}ˇ\n}\n"),
    case("rust", "zero", "fn f() {\n    ˇ\n}\n", "if x {\n    g();\n}\n", "fn f() {\n    if x {\n        g();\n    }ˇ\n}\n"),
    case("lua", "spaces", "local function f()\n  ˇ\nend\n", "if x then\n\t\tg()\n\tend\n", "local function f()\n  if x then\n    g()\n  endˇ\nend\n"),
    case("lua", "tabs", "local function f()\n\tˇ\nend\n", "if x then\n    g()\n  end\n", "local function f()\n\tif x then\n\t\tg()\n\tendˇ\nend\n"),
    case("lua", "zero", "local function f()\n  ˇ\nend\n", "if x then\n  g()\nend\n", "local function f()\n  if x then\n    g()\n  endˇ\nend\n"),
    case("html", "tabs", "<body>\n\tˇ\n</body>\n", "<ul>\n    <li>a</li>\n  </ul>\n", "<body>\n\t<ul>\n\t\t<li>a</li>\n\t</ul>ˇ\n</body>\n"),
    case("html", "zero", "<body>\n  ˇ\n</body>\n", "<ul>\n  <li>a</li>\n</ul>\n", "<body>\n  <ul>\n    <li>a</li>\n  </ul>ˇ\n</body>\n"),
    case("markdown", "list", "- a\n  - b\n  ˇ\n", "- c\n  - d\n", "- a\n  - b\n  - c\n  - dˇ\n"),
    case("markdown", "tabs", "- a\n\t- b\n\tˇ\n", "- c\n        - d\n", "- a\n\t- b\n\t- c\n\t\t- dˇ\n"),
]  # fmt: skip
"""Case 4: the file's own indentation, and a block at its own depth."""

STATEMENT = {
    "python": ("x = 1\nˇ\n", "y = 2"),
    "typescript": ("const x = 1;\nˇ\n", "const y = 2;"),
    "go": ("x := 1\nˇ\n", "y := 2"),
    "rust": ("let x = 1;\nˇ\n", "let y = 2;"),
    "lua": ("local x = 1\nˇ\n", "local y = 2"),
    "html": ("<p>one</p>\nˇ\n", "<p>two</p>"),
    "markdown": ("One line.\nˇ\n", "Two lines."),
}
MARKS = {
    "end": "{}<|endoftext|>import os",
    "eot": "{}<|eot_id|>",
    "turn": "{}<|im_end|>\n<|im_start|>user",
    "fim": "{}<|fim_pad|>",
    "next-file": "{}\n<|file_sep|>b.py\nimport os",
    "starcoder": "{}<file_sep>b.py",
    "codellama": "{} <EOT>",
    "deepseek": "{}<｜end▁of▁sentence｜>",
    "fence-behind": "{}\n```\nThis does it.",
    "cursor": "{}<|cursor|>",
}
"""Case 5: what a model says around the code."""
NOTHING = (
    "<|endoftext|>",
    "NO_EDITS",
    "<NO_EDITS>",
    "<think>",
    "```",
    "<|im_end|>",
    "\n<|file_sep|>",
)

BLOCKS = {
    "python": ("def f():\nˇ\n", "    ", "    return 1\n"),
    "typescript": ("function f() {\nˇ\n}\n", "  ", "  return 1;\n"),
    "go": ("func f() int {\nˇ\n}\n", "\t", "\treturn 1\n"),
    "rust": ("fn f() -> u8 {\nˇ\n}\n", "    ", "    return 1;\n"),
    "lua": ("local function f()\nˇ\nend\n", "  ", "  return 1\n"),
    "html": ("<ul>\nˇ\n</ul>\n", "  ", "  <li>a</li>\n"),
    "markdown": ("- a\nˇ\n", "  ", "  - b\n"),
}
"""A line below a head, one level of indentation, and an answer that begins with it."""

WIDE = {
    "python": ('μ = "🙂e\u0301"; f(ˇ)', "μ)", 'μ = "🙂e\u0301"; f(μˇ)'),
    "typescript": ("const μ = '👩‍👩‍👧'; f(ˇ);", "μ, 'é');", "const μ = '👩‍👩‍👧'; f(μ, 'é'ˇ);"),
    "go": ('é, ok := m["🙂"]; f(ˇ)', "é, ok)", 'é, ok := m["🙂"]; f(é, okˇ)'),
    "rust": ('let é = "日本"; f(ˇ);', "é);", 'let é = "日本"; f(éˇ);'),
    "lua": ('local s = "e\u0301🙂" f(ˇ)', "s)", 'local s = "e\u0301🙂" f(sˇ)'),
    "html": ("<p>日本 🙂 <b>ˇ</b></p>", "é</b></p>", "<p>日本 🙂 <b>éˇ</b></p>"),
    "markdown": ("e\u0301 🙂 (ˇ)", "μ)", "e\u0301 🙂 (μˇ)"),
}
"""Case 8: characters of several bytes, UTF-16 units or code points before the cursor."""


@pytest.mark.parametrize(
    ("language", "before", "answer", "after"), CLOSED_PAIR + REPEATS + INDENTED
)
@pytest.mark.parametrize("chunk_chars", [1, 1000])
def test_accepted(language: str, before: str, answer: str, after: str, chunk_chars: int) -> None:
    assert accepted(language, before, answer, chunk_chars) == accept(drawn(after), None)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_marks_of_a_model_are_no_text(language: str, marks: str) -> None:
    before, said = STATEMENT[language]
    shown = accepted(language, before, marks.format(said), 3)
    assert shown == accept(drawn(before.replace("ˇ", said + "ˇ")), None)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("answer", NOTHING)
def test_an_answer_of_marks_alone_shows_nothing(language: str, answer: str) -> None:
    before, _ = STATEMENT[language]
    assert trimmed(drawn(before), answer, language_id=language) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_tab_that_indents_leads_on_to_the_suggestion(language: str) -> None:
    """Case 3: at the beginning of a line the suggestion begins with the indentation, by which an
    editor knows that Tab is meant to indent; and behind that it goes on."""
    before, indentation, answer = BLOCKS[language]
    document = drawn(before)
    shown = trimmed(document, answer, language_id=language)
    assert shown == answer.rstrip("\n")
    assert rest_after(document, shown, indentation) == answer.strip()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_suggestion_keeps_to_its_place_as_the_document_moves_on(language: str) -> None:
    """Case 6: lines that come above it move it; lines at its own place end it."""
    before, said = STATEMENT[language]
    document = drawn("\n" * 300 + before + "\n" * 300)
    memory = remembering(document, said)
    moved = drawn(f"\n\n\n{document.text[: document.offset]}ˇ{document.text[document.offset :]}")
    assert list(memory.rests(moved.text, moved.offset)) == [said]
    changed = drawn(f"{document.text[: document.offset - 1]} \nˇ{document.text[document.offset :]}")
    assert list(memory.rests(changed.text, changed.offset)) == []
    assert list(memory.rests(document.text, document.offset - 1)) == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("chunk_chars", [1, 1000])
def test_wide_characters_before_the_cursor(language: str, chunk_chars: int) -> None:
    before, answer, after = WIDE[language]
    assert accepted(language, before, answer, chunk_chars) == accept(drawn(after), None)


def accepted(language: str, before: str, answer: str, chunk_chars: int) -> str:
    document = drawn(before)
    return accept(
        document, trimmed(document, answer, language_id=language, chunk_chars=chunk_chars)
    )


def remembering(document: Drawn, suggestion: str | None) -> TypedThrough:
    assert suggestion is not None
    memory = TypedThrough()
    memory.remember(document.text, document.offset, suggestion)
    return memory


def rest_after(document: Drawn, suggestion: str | None, typed: str) -> str | None:
    memory = remembering(document, suggestion)
    text = document.text[: document.offset] + typed + document.text[document.offset :]
    return next(memory.rests(text, document.offset + len(typed)), None)
