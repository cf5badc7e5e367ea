"""Prose and its function, language by language."""

import pytest

from composer_index.evaluate.documented import find_documented, first_sentence, is_telling


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("a.py", 'def f():\n    """Do it. Now."""\n    return 1\n', [("f", "Do it")]),
        ("a.py", "class C:\n    '''Hold it.'''\n    def g(self):\n        r'''Go.'''\n", [("g", "Go")]),
        ("a.py", "def f():\n    x = 'No docstring.'\n", []),
        ("a.c", "/* Free it all. */\nvoid *f(int a) {\n}\n", [("f", "Free it all")]),
        ("a.c", "/* Far away. */\n\n\nint f(void) { return 1; }\n", []),
        ("a.c", "int x; /* A trailing one. */\nint f(void) { return 1; }\n", []),
        ("a.h", "#ifdef A\n// First\n// line.\nint f(void) { return 1; }\n#endif", [("f", "First line")]),
        ("a.ts", "/**\n * Opens it.\n * @param a x\n */\nexport function f(a: X) {}\n", [("f", "Opens it")]),
        ("a.ts", "class A {\n  /** Closes. */\n  @deco() close(): void {}\n}\n", [("close", "Closes")]),
        ("a.tsx", "// Shows it.\nexport const Show = () => <a/>;\n", [("Show", "Shows it")]),
        ("a.js", "/** Adds. */\nA.prototype.add = function (b) {};\n", [("A.prototype.add", "Adds")]),
        ("a.go", "// F opens.\nfunc F() {}\n", [("F", "F opens")]),
        ("a.rs", "/// Opens it.\n#[inline]\npub fn f() {}\n", [("f", "Opens it")]),
        ("a.java", "class A {\n  /** Opens. */\n  @Override void f() {}\n}\n", [("f", "Opens")]),
        ("a.rb", "# Opens it.\ndef f\nend\n", [("f", "Opens it")]),
        ("a.php", "<?php\n/** Opens it. */\nfunction f() {}\n", [("f", "Opens it")]),
        ("a.cpp", "/// Opens it.\ntemplate <class T> void f() {}\n", [("f", "Opens it")]),
        ("a.txt", "/* Not code. */", []),
        ("a.py", "\x00\xff def (", []),
    ],
)  # fmt: skip
def test_finds_functions_with_their_prose(
    path: str, source: str, expected: list[tuple[str, str]]
) -> None:
    found = find_documented(path, source.encode("latin-1"))
    functions = [one for one in found if one.is_function]
    assert [(one.name, first_sentence(one.prose)) for one in functions] == expected


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ('"""\n    Return the\n    path. More.\n    """', "Return the path"),
        ("/**\n * @brief Opens a {@link Socket}.\n */", "Opens a Socket"),
        ("# Sends it, e.g. by mail. Then waits.", "Sends it, e.g. by mail"),
        ('"""Use :meth:`~a.open` and ``b``."""', "Use a.open and b"),
        ("/* One paragraph\n *\n * and another */", "One paragraph"),
        ("// <p>Opens.</p>", "Opens"),
        ('"""', ""),
    ],
)
def test_first_sentence(prose: str, expected: str) -> None:
    assert first_sentence(prose) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Return the path of a file", True),
        ("See open", False),
        ("TODO: say what this does", False),
        ("a = b + c * (d - e) / 2 ** 8", False),
        ("Copyright of the authors of it", False),
    ],
)
def test_tells_what_could_be_searched_for(sentence: str, expected: bool) -> None:
    assert is_telling(sentence) is expected
