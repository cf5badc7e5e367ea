"""The same change again, imports, problems, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.next_edit.content import parses_no_worse
from composer_lsp.next_edit.proposal import Diagnostic
from composer_lsp.next_edit.reader import read_source
from tests.composer_lsp.next_edit.drawn import Model, Workspace, all_drawn, drawn


@pytest.mark.parametrize(
    ("language_id", "picture", "expected"),
    [
        pytest.param(
            "python",
            """
            def f(x):
                «assert x is not None→if x is None:
                    raise ValueError»

            def g(x):
                if x:
                    assert x is not None
            """,
            ["⟦        assert x is not None→        if x is None:\n            raise ValueError⟧"],
            id="the very same line, indented otherwise",
        ),
        pytest.param(
            "python",
            """
            a = get("x"«→, timeout=5»)

            b = get("y"«→, timeout=5»)
            c = get("z")
            d = put("z")
            """,
            ['⟦c = get("z")→c = get("z", timeout=5)⟧'],
            id="like two that were changed alike",
        ),
        pytest.param("python", "x = «1→2»\ny = 1\n", [], id="one example is no rule"),
        pytest.param("python", "    «pass→return»\n\n    pass\n", [], id="a short line"),
        pytest.param(
            "go",
            """
            package p

            func f() {
            \t«log.Println(err, 1)→log.Printf("%v", err)»
            }

            func g() {
            \t\tlog.Println(err, 1)
            }
            """,
            ['⟦\t\tlog.Println(err, 1)→\t\tlog.Printf("%v", err)⟧'],
            id="tabs",
        ),
    ],
)
async def test_the_same_change_again(language_id, picture, expected):
    workspace = Workspace(language_id)
    workspace.open(picture)
    assert await all_drawn(workspace) == expected


@pytest.mark.parametrize(
    ("language_id", "picture", "expected"),
    [
        pytest.param(
            "python",
            "import os\nimport re\n\nx = «os.getcwd()→1»\nre.x\n",
            ["⟦import os\n→⟧import re"],
            id="a whole statement",
        ),
        pytest.param(
            "python",
            "from a import (\n    b,\n    c,\n)\n\nx = «b()→1»\nc\n",
            ["⟦b,\n    →⟧c,"],
            id="one of several names",
        ),
        pytest.param(
            "python", "from a import b, c\n\nx = «c()→1»\nb\n", ["from a import b⟦, c→⟧"], id="last"
        ),
        pytest.param("python", "import os\n\nx = «os.x→1»\nos.y\n", [], id="still used"),
        pytest.param("python", "import os\n\nx = «1→2»\n", [], id="it was not used before"),
        pytest.param(
            "python", 'from a import b\n__all__ = ["b"]\nx = «b→1»\n', [], id="exported by its name"
        ),
        pytest.param(
            "python",
            "«import os\n→»import re\n\n\nre.x\nos.getcwd()ˇ\n",
            ["⟦→import os\n⟧import re"],
            id="taken from what needs it",
        ),
        pytest.param(
            "typescript",
            "import { a, b } from './x';\nconst y = «a(1)→1»;\nb();\n",
            ["import { ⟦a, →⟧b } from './x';"],
            id="typescript",
        ),
        pytest.param(
            "go",
            'package p\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nfunc f() {\n\t«fmt.Println()→os.Exit(1)»\n}\n',
            ['⟦\t"fmt"\n→⟧\t"os"'],
            id="go",
        ),
    ],
)
async def test_imports(language_id, picture, expected):
    workspace = Workspace(language_id)
    workspace.open(picture)
    assert await all_drawn(workspace) == [each.strip() for each in expected]


async def test_a_problem_that_the_edit_has_caused():
    workspace = Workspace()
    workspace.open("def «f(a)→f(a) -> str»: ...\n\nx = 1 + f(2)\n")
    problem = Diagnostic(line=2, message='Operator "+" not supported for "int" and f')
    model = Model("x = '1' + f(2)\ny = 2")
    found = await workspace.find(model, diagnostics=[problem])
    assert drawn(found) == "⟦x = 1 + f(2)→x = '1' + f(2)⟧"
    (prompt,) = model.prompts
    assert prompt.prediction == "x = 1 + f(2)"
    assert "# Error: Operator" in prompt.prefix
    other = Diagnostic(line=2, message="unused variable x")
    assert await workspace.find(model, diagnostics=[other]) is None


@pytest.mark.parametrize("answer", ["", "x = 1 + f(2)", "x = (("])
async def test_a_problem_s_line_is_left_where_the_model_does_not_mend_it(answer):
    workspace = Workspace()
    workspace.open("def «f(a)→f(a) -> str»: ...\n\nx = 1 + f(2)\n")
    problem = Diagnostic(line=2, message="f returns str")
    assert await workspace.find(Model(answer), diagnostics=[problem]) is None


@pytest.mark.parametrize("language_id", ["python", "typescript", "go", "markdown", "nonsense"])
async def test_without_edits_there_is_nothing(language_id):
    workspace = Workspace(language_id)
    workspace.open("def area(w): return w\narea(1)\n")
    assert await workspace.find() is None


def test_names_are_found_where_they_stand():
    text = 'def f(ä, b):\r\n    """f(ä)"""\r\n    return "😀", ä.b  # ä\r\n'
    source = read_source(text, "python")
    assert all(text[name.start : name.end] == name.text for name in source.names)
    assert [name.text for name in source.names] == ["f", "ä", "b", "ä", "b"]


_WORDS = st.lists(
    st.sampled_from(["def f(a):", "    return a", "f(1)", "a = f(2)", "import f", "", "x.f = a"]),
    max_size=8,
)


@given(_WORDS, st.sampled_from(["f", "a", "x"]), st.sampled_from(["g", "fa", "b"]))
async def test_accepting_changes_nothing_but_its_range(lines, old, new):
    """And leaves the file no worse than it was, whatever the edit was."""
    text = "\n".join(lines)
    if old not in text:
        return
    workspace = Workspace()
    workspace.open(text.replace(old, f"«{old}→{new}»", 1))
    proposal = await workspace.find()
    if proposal is None:
        return
    before = workspace.buffers["file:///w/a.py"].text
    assert 0 <= proposal.start <= proposal.end <= len(before)
    assert parses_no_worse(proposal)
    workspace.accept(proposal)
    after = workspace.buffers["file:///w/a.py"].text
    assert after == before[: proposal.start] + proposal.text + before[proposal.end :]
    assert after != before
