import pytest

from tests.composer_lsp.next_edit.drawn import Model, Workspace, all_drawn, drawn


@pytest.mark.parametrize(
    ("language_id", "picture", "expected"),
    [
        pytest.param(
            "python",
            "def f(a, «b, →»c): pass\n\nf(1, 2, 3)\nf(x(1, 2), c=3, b=y)\nf(1, 3)\nf(*a)\n",
            ["f(1, ⟦2, →⟧3)", "f(x(1, 2), c=3⟦, b=y→⟧)"],
            id="removed in the middle",
        ),
        pytest.param(
            "python", "def f(«a→»): pass\n\nf(1)\nf()\n", ["f(⟦1→⟧)"], id="the only one removed"
        ),
        pytest.param(
            "python",
            "def f(«a, b→b, a»): pass\n\nf(1, g(2))\nf(b=1, a=2)\nf(3)\n",
            ["f(⟦1, g(2)→g(2), 1⟧)"],
            id="reordered",
        ),
        pytest.param(
            "python",
            "def f(a, «b→size»): return size\n\nf(1, b=2)\nf(1, 2)\n",
            ["f(1, ⟦b→size⟧=2)"],
            id="renamed",
        ),
        pytest.param(
            "python",
            "def f(a«→, b»): pass\n\ndef g(b):\n    f(1)\n    f(1, 2)\n    f(1, b=2)\n",
            ["f(1⟦→, b⟧)"],
            id="added, and the caller has a variable of its name",
        ),
        pytest.param(
            "python",
            "def f(a«→, step»):\n    return a + «10→step»\n\nf(1)\nf(2, 3)\n",
            ["f(1⟦→, 10⟧)"],
            id="added in place of a literal",
        ),
        pytest.param(
            "python",
            "def f(a«→, make»):\n    x = «dict→make»()\n    return x(a)\n\nf(1)\n",
            ["f(1⟦→, dict⟧)"],
            id="added in place of a name that callers know too",
        ),
        pytest.param(
            "python",
            "def f(a«→, make»):\n    return «a→make»\n\nf(1)\n",
            [],
            id="added in place of a name that they do not know",
        ),
        pytest.param("python", "def f(a«→, b=1»): pass\n\nf(1)\n", [], id="added with a default"),
        pytest.param(
            "python",
            "def f(a, *«→, key»): pass\n\nkey = 1\nf(1)\n",
            ["f(1⟦→, key=key⟧)"],
            id="added by keyword alone",
        ),
        pytest.param(
            "python",
            "class A:\n    def __init__(self«→, size»): pass\n\nsize = 1\nA()\nB()\n",
            ["A(⟦→size⟧)"],
            id="of a constructor",
        ),
        pytest.param(
            "python",
            "class A:\n    def go(self«→, far»):\n        far = 1\n        self.go()\n\ngo()\n",
            ["self.go(⟦→far⟧)"],
            id="of a method",
        ),
        pytest.param(
            "typescript",
            "function f(«url: string, →»n: number) {}\nfunction g() { f('a', 1); x.f(1, 2); }\n",
            ["function g() { f(⟦'a', →⟧1); x.f(1, 2); }"],
            id="typescript, removed",
        ),
        pytest.param(
            "typescript",
            "class A { go(a: number«→, b: number») { const b = 1; this.go(1); } }\n",
            ["class A { go(a: number, b: number) { const b = 1; this.go(1⟦→, b⟧); } }"],
            id="typescript, added to a method",
        ),
        pytest.param(
            "go",
            "package p\n\nfunc f(«→ctx int, »a int) {}\n\nfunc g(ctx int) {\n\tf(1)\n}\n",
            ["f(⟦→ctx, ⟧1)"],
            id="go, added in front",
        ),
        pytest.param(
            "go",
            "package p\n\nfunc f(a«, b→» int) {}\n\nfunc g() {\n\tf(1, 2)\n}\n",
            ["f(1⟦, 2→⟧)"],
            id="go, one of two of a type removed",
        ),
    ],
)
async def test_calls_follow_the_signature(language_id, picture, expected):
    workspace = Workspace(language_id)
    workspace.open(picture)
    assert await all_drawn(workspace) == expected


async def test_the_model_writes_a_value_that_nobody_has():
    workspace = Workspace()
    workspace.open("def area(w, h«→, unit»): pass\n\nprint(area(1, 2))\n")
    model = Model(' "cm", True)) # and so on')
    assert drawn(await workspace.find(model)) == 'print(area(1, 2⟦→, "cm"⟧))'
    (prompt,) = model.prompts
    assert prompt.prefix.endswith("\n\nprint(area(1, 2, unit=")
    assert prompt.suffix == "))\n"
    assert "-def area(w, h): pass\n+def area(w, h, unit): pass" in prompt.context.snippets[1].text
    assert prompt.context.snippets[0].text == "def area(w, h, unit): pass"


@pytest.mark.parametrize(
    ("answer", "logprob"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param(")", None, id="nothing but the bracket"),
        pytest.param("((1", None, id="what does not end"),
        pytest.param("1 2", None, id="what does not parse"),
        pytest.param("'cm'", -3.0, id="a guess"),
        pytest.param("cm", None, id="a name that nobody knows"),
    ],
)
async def test_what_the_model_writes_may_be_of_no_use(answer, logprob):
    workspace = Workspace()
    workspace.open("def area(w, h«→, unit»): pass\n\nprint(area(1, 2))\n")
    assert await workspace.find(Model(answer, logprob)) is None


async def test_calls_in_other_files():
    workspace = Workspace()
    workspace.files = {
        "file:///w/b.py": "from a import f\nf(1, 2)\n",
        "file:///w/c.py": "f(1, 2)\n",
        "file:///w/d.py": "import a\na.f(1, 2)\n",
    }
    workspace.open("def f(a«, b→»): pass\n")
    assert drawn(await workspace.find()) == "f(1⟦, 2→⟧)"
    workspace.open(workspace.files["file:///w/d.py"], "file:///w/d.py")
    assert drawn(await workspace.find(uri="file:///w/d.py")) == "a.f(1⟦, 2→⟧)"


async def test_each_call_is_written_by_itself():
    """Two that were given the same are no rule for a third."""
    workspace = Workspace()
    workspace.open("def f(a«→, name»): pass\n\nx = f(g«→, 'g'»)\n\ny = f(h«→, 'g'»)\nz = f(i)\n")
    assert drawn(await workspace.find(Model("'i')"))) == "z = f(i⟦→, 'i'⟧)"
