from collections.abc import Callable
from pathlib import Path

import pytest

from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.edit import delete_file, write_file
from composer_lsp.agent.tools.files import find_files, list_files, read_file
from composer_lsp.agent.tools.tool import ToolError
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError

Call = Callable[..., str]


def test_lines_are_numbered(call: Call) -> None:
    assert call(read_file, path="src/util.py") == "1\tdef helper():\n2\t    return 'needle'"


def test_a_range_says_that_it_is_one(call: Call) -> None:
    shown = call(read_file, path="src/app.py", start_line=4, end_line=4)
    assert shown == "4\tdef main():\n[lines 4 to 4 of 5]"


def test_a_long_read_says_where_it_was_cut(call: Call, root: Path, context: ToolContext) -> None:
    (root / "long.py").write_text("".join(f"x{n}\n" for n in range(1, 1001)))
    shown = call(read_file, path="long.py")
    assert shown.endswith(
        "\n400\tx400\n[cut: these are lines 1 to 400 of 1000; read on with start_line=401]"
    )
    assert not context.reads.is_whole("long.py")
    for start in (401, 801):
        shown = call(read_file, path="long.py", start_line=start)
    assert shown.endswith("\n1000\tx1000\n[lines 801 to 1000 of 1000]")
    assert context.reads.is_whole("long.py")


LONG = (
    "x = 1\n" * 450
    + """\
LIMIT = 3


class Shop:
    open = True

    def buy(self):
        return 1


def close():
    return 2
"""
)


def test_a_long_read_tells_what_is_defined_further_down(
    call: Call, root: Path, context: ToolContext
) -> None:
    (root / "long.py").write_text(LONG)
    shown = call(read_file, path="long.py")
    assert shown.partition("read on with start_line=401]\n")[2].splitlines() == [
        "[what is defined further down]",
        "454-458: class Shop",
        "457-458: method Shop.buy",
        "461-462: function close",
    ]
    assert not context.reads.has_seen("long.py", 454, 454)
    assert "further down" not in call(read_file, path="long.py", start_line=2)
    assert "further down" not in call(read_file, path="long.py", end_line=10)


def test_a_long_outline_has_the_outermost_and_says_how_many_more(
    call: Call, root: Path, context: ToolContext
) -> None:
    functions = "".join(f"\n\ndef f{number}():\n    pass\n" for number in range(20))
    (root / "long.py").write_text(LONG + functions)
    context.max_result_chars = 1500
    shown = call(read_file, path="long.py")
    _, _, told = shown.partition("[what is defined further down]\n")
    assert told.splitlines()[:2] == ["454-458: class Shop", "461-462: function close"]
    assert told.splitlines()[-1] == "[and 15 more]"
    assert len(told) < 170


def test_a_long_line_is_cut_and_does_not_count_as_read(
    call: Call, root: Path, context: ToolContext
) -> None:
    (root / "wide.txt").write_text("a" * 5000 + "\nb\n")
    assert "a[cut: the line has 5000 characters]\n2\tb" in call(read_file, path="wide.txt")
    assert context.reads.has_seen("wide.txt", 2, 2)
    assert not context.reads.has_seen("wide.txt", 1, 1)


def test_a_file_read_in_part_is_not_written_over(call: Call, root: Path) -> None:
    (root / "long.py").write_text("x\n" * 1000)
    call(read_file, path="long.py")
    with pytest.raises(ToolError, match="you have not read all of it: use edit_file"):
        call(write_file, path="long.py", text="x\n" * 400)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (".env", "it holds secrets by its name"),
        ("build/out.py", "which|git ignores it; the user did not allow it"),
        ("private/notes.md", r"a \.composerignore file hides it"),
        (".git/config", "git's own files are not for the agent"),
        ("../outside.txt", "outside of the workspace"),
        ("/etc/passwd", "outside of the workspace"),
        ("~/.ssh/id_rsa", "outside of the workspace"),
        ("src/../../x", "outside of the workspace"),
        ("C:\\Windows\\win.ini", "outside of the workspace"),
        ("file:///etc/passwd", "outside of the workspace"),
        ("", "is no path"),
        ("a\0b", "is no path"),
    ],
)
def test_what_may_not_be_read_is_refused(call: Call, path: str, error: str) -> None:
    with pytest.raises(PathError, match=error):
        call(read_file, path=path)


def test_a_link_out_of_the_workspace_is_refused(call: Call, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("needle")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path)
    for path in ("link.txt", "folder/secret.txt"):
        with pytest.raises(PathError):
            call(read_file, path=path)


def test_the_user_may_let_an_ignored_file_be_read(call: Call, context: ToolContext) -> None:
    asked: list[str] = []

    async def yes(question: str) -> bool:
        asked.append(question)
        return True

    context.ask_user = yes
    assert "needle" in call(read_file, path="build/out.py")
    call(read_file, path="build/out.py")
    assert asked == ["May build/out.py, which git ignores, be read?"]


@pytest.mark.parametrize(
    "path", ["./src/app.py", "src//app.py", "src\\app.py", "lib/../src/app.py"]
)
def test_paths_are_understood(call: Call, path: str) -> None:
    assert "def main" in call(read_file, path=path)


def test_an_absolute_path_inside_is_understood(call: Call, root: Path) -> None:
    assert "def main" in call(read_file, path=str(root / "src" / "app.py"))
    assert "def main" in call(read_file, path=(root / "src" / "app.py").as_uri())


def test_a_missing_file_names_one_like_it(call: Call) -> None:
    with pytest.raises(ToolError, match=r"there is no file app\.py; is it src/app\.py\?"):
        call(read_file, path="app.py")


def test_a_folder_and_a_binary_file_are_told(call: Call, root: Path) -> None:
    (root / "data.bin").write_bytes(b"\0\1\2\3" * 9)
    with pytest.raises(WorkspaceError, match="src is a folder; list_files lists it"):
        call(read_file, path="src")
    with pytest.raises(WorkspaceError, match="data.bin cannot be read: it is no text"):
        call(read_file, path="data.bin")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start_line": 9}, "has 5 lines; start_line is 9"),
        ({"start_line": 0}, "has 5 lines; start_line is 0"),
        ({"start_line": 3, "end_line": 2}, "end_line 2 comes before start_line 3"),
    ],
)
def test_lines_that_are_not_there_are_told(
    call: Call, arguments: dict[str, int], error: str
) -> None:
    with pytest.raises(ToolError, match=error):
        call(read_file, path="src/app.py", **arguments)


def test_lists_what_may_be_read(call: Call) -> None:
    assert call(list_files, depth=0).split("\n") == [
        ".composerignore",
        ".gitignore",
        "README.md",
        "src/ (2 files)",
    ]
    assert call(list_files, path="src") == "app.py\nutil.py"


def test_lists_what_the_run_has_changed(call: Call) -> None:
    call(write_file, path="src/new.py", text="x = 1\n")
    call(delete_file, path="src/app.py")
    assert call(list_files, path="src/") == "new.py\nutil.py"


@pytest.mark.parametrize("pattern", ["APP", "*.py", "src/**", "src/app.py"])
def test_finds_by_a_part_and_by_a_glob(call: Call, pattern: str) -> None:
    assert "src/app.py" in call(find_files, pattern=pattern).split("\n")


def test_a_glob_that_is_none_is_told(call: Call) -> None:
    with pytest.raises(ToolError, match=r"\["):
        call(find_files, pattern="[")


@pytest.mark.parametrize("num_folders", [600, 5000])
def test_a_path_without_end_is_refused(call: Call, num_folders: int) -> None:
    for tool, arguments in ((read_file, {}), (write_file, {"text": "x"}), (delete_file, {})):
        with pytest.raises(PathError, match="no file lies in"):
            call(tool, path="a/" * num_folders + "x.py", **arguments)
