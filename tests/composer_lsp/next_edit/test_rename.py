import pytest

from tests.composer_lsp.next_edit.drawn import Workspace, all_drawn, drawn

PYTHON_FUNCTION = """
    def «area→surface»(w, h):
        return w * h

    def main():
        # area of a room
        print("area", area(1, 2))
        area_of = area
    """


async def test_a_function_s_uses_follow_and_no_word_of_a_string_or_comment():
    workspace = Workspace()
    workspace.open(PYTHON_FUNCTION)
    assert await all_drawn(workspace) == [
        'print("area", ⟦area→surface⟧(1, 2))',
        "area_of = ⟦area→surface⟧",
    ]


@pytest.mark.parametrize(
    ("language_id", "picture", "expected"),
    [
        pytest.param(
            "python",
            """
            def f(«count→total»):
                for i in range(count):
                    yield count, g(count=1)

            def g(count):
                return count
            """,
            ["for i in range(⟦count→total⟧):", "yield ⟦count→total⟧, g(count=1)"],
            id="a parameter stays in its function",
        ),
        pytest.param(
            "python",
            """
            def f(count):
                «count→total» = count + 1
                return count
            """,
            [],
            id="one of two bindings of a name",
        ),
        pytest.param(
            "python",
            """
            class Box:
                def «grow→expand»(self):
                    self.grow()

            def grow():
                Box().grow()
                grow()
            """,
            ["self.⟦grow→expand⟧()", "Box().⟦grow→expand⟧()"],
            id="a method is reached by a dot",
        ),
        pytest.param(
            "python",
            """
            class Box:
                def __init__(self):
                    self.«size→length» = 0

                def get(self, size):
                    return self.size + size
            """,
            ["return self.⟦size→length⟧ + size"],
            id="a field",
        ),
        pytest.param(
            "python",
            """
            LIMIT = 3

            def f():
                return «LIMIT→LIMITS»ˇ

            def g():
                return LIMIT
            """,
            ["return ⟦LIMIT→LIMITS⟧", "⟦LIMIT→LIMITS⟧ = 3"],
            id="from a use to what introduces it",
        ),
        pytest.param(
            "typescript",
            """
            export function «load→fetchAll»(url: string): string { return url; }
            const a = load("load"); // load
            const b = { load: 1, ...x.load };
            """,
            ['const a = ⟦load→fetchAll⟧("load"); // load'],
            id="typescript function",
        ),
        pytest.param(
            "typescript",
            """
            class Box {
              «grow→expand»(by: number): void { this.grow(by); }
            }
            new Box().grow(2);
            """,
            [
                "expand(by: number): void { this.⟦grow→expand⟧(by); }",
                "new Box().⟦grow→expand⟧(2);",
            ],
            id="typescript method",
        ),
        pytest.param(
            "go",
            """
            package p

            func «sum→total»(values []int) int { return 0 }

            func main() {
            \tx := sum(nil) // sum
            \tsum := 3
            }

            func other() int { return sum(nil) }
            """,
            ["func other() int { return ⟦sum→total⟧(nil) }"],
            id="go function, and a local of its name",
        ),
        pytest.param(
            "go",
            """
            package p

            func (b *Box) «Grow→Expand»(by int) { b.Grow(by - 1) }

            func main(b *Box) {
            \tb.Grow(2)
            }
            """,
            [
                "func (b *Box) Expand(by int) { b.⟦Grow→Expand⟧(by - 1) }",
                "b.⟦Grow→Expand⟧(2)",
            ],
            id="go method",
        ),
    ],
)
async def test_what_the_name_means_decides(language_id, picture, expected):
    workspace = Workspace(language_id)
    workspace.open(picture)
    assert await all_drawn(workspace) == expected


@pytest.mark.parametrize(
    "picture",
    [
        pytest.param("def f(«a→b»):\n    b = 2\n    return a\n", id="the new name was taken"),
        pytest.param("x = «print→show»(1)\nprint(2)\n", id="a use of what the file lacks"),
        pytest.param("def f(): pass\n\n«f→g»()\nf()\n", id="a use, to a quite different name"),
        pytest.param(
            "def area(): pass\ndef areas(): pass\n«area→areas»()\narea()\n", id="to a known name"
        ),
        pytest.param("# the «area→surface»\narea = 1\nprint(area)\n", id="in a comment"),
        pytest.param('x = "«area→surface»"\narea = 1\nprint(area)\n', id="in a string"),
        pytest.param("def f(): pass\nf(«a→b»=1)\nf(a=2)\na = 3\n", id="a keyword"),
        pytest.param(
            "class A:\n    def «run→start»(self): pass\n\nclass B:\n    def run(self): pass\n\n"
            "b.run()\n",
            id="a method of two classes",
        ),
    ],
)
async def test_nothing_is_proposed(picture):
    workspace = Workspace()
    workspace.open(picture)
    assert drawn(await workspace.find()) == ""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_line_ends_and_tabs_stay(end):
    workspace = Workspace("go")
    workspace.open("package p\nfunc «sum→total»() {\n\t\tsum() // 😀\n}\n", end=end)
    workspace.accept(await workspace.find())
    text = workspace.buffers["file:///w/a.py"].text
    assert text == f"package p{end}func total() {{{end}\t\ttotal() // 😀{end}}}{end}"


async def test_undo_ends_it():
    workspace = Workspace()
    workspace.open("def «area→surface»(): pass\narea()\n")
    assert drawn(await workspace.find()) == "⟦area→surface⟧()"
    buffer = workspace.buffers["file:///w/a.py"]
    buffer.replace(buffer.position_at(4), buffer.position_at(11), "area")
    assert drawn(await workspace.find()) == ""


async def test_what_was_dismissed_stays_away():
    workspace = Workspace()
    workspace.open(PYTHON_FUNCTION)
    first = await workspace.find()
    assert await workspace.find(dismissed=[first.change]) is None


async def test_several_cursors_at_once_leave_the_rest():
    workspace = Workspace()
    workspace.open("def «f→run»(): pass\n\n«f→run»()\nx = f()\nf()\n")
    assert await all_drawn(workspace) == ["x = ⟦f→run⟧()", "⟦f→run⟧()"]


OTHERS = {
    "file:///w/b.py": "from a import area\nprint(area(1))\n",
    "file:///w/c.py": "import a\nprint(a.area(1), b.area(1))\n",
    "file:///w/d.py": "def area(): pass\narea()\n",
    "file:///w/e.py": "area = 1\n",
}


async def test_other_files_that_import_it():
    workspace = Workspace()
    workspace.files = OTHERS
    workspace.open("def «area→surface»(w): return w\n")
    first = await workspace.find()
    assert (first.document.uri, first.document.version) == ("file:///w/b.py", -1)
    assert drawn(first) == "from a import ⟦area→surface⟧"
    for uri, text in OTHERS.items():  # the editor jumps there, and asks there
        workspace.open(text, uri)
    found = []
    for uri in OTHERS:
        workspace.offset = 0
        while (each := await workspace.find(uri=uri)) is not None and each.document.uri == uri:
            found.append(drawn(each))
            workspace.accept(each)
    assert found == [
        "from a import ⟦area→surface⟧",
        "print(⟦area→surface⟧(1))",
        "print(a.⟦area→surface⟧(1), b.area(1))",
    ]


async def test_a_method_in_other_files_where_only_one_class_has_it():
    workspace = Workspace()
    workspace.files = {"file:///w/b.py": "def f(box):\n    box.expand()\n"}
    workspace.open("class Box:\n    def «expand→grow»(self): pass\n")
    assert drawn(await workspace.find()) == "box.⟦expand→grow⟧()"
    workspace.num_definitions = 1  # somebody else's, in a file that is not looked at
    assert await workspace.find() is None


async def test_the_same_names_in_another_function() -> None:
    workspace = Workspace()
    workspace.open(
        """
        def f(«w→width»):
            return 1

        x = 0

        def g(«w→width»):
            return w
        """
    )
    assert drawn(await workspace.find()) == "return ⟦w→width⟧"


async def test_the_same_names_in_another_document() -> None:
    workspace = Workspace()
    workspace.open("def «area→size»(w): pass\n", uri="file:///w/b.py")
    workspace.open("def «area→size»(w): pass\n\nx = area(1)\n")
    assert drawn(await workspace.find()) == "x = ⟦area→size⟧(1)"
