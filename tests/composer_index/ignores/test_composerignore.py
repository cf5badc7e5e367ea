"""`.composerignore` files at any level, read as they are at the moment of asking."""

import logging
import os
from pathlib import Path

import pytest

from composer_index.ignores import ComposerIgnore, HiddenFiles


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / ".composerignore", "*.gen.py", "/private/", "docs/*.txt")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("a.py", False),
        ("a.gen.py", True),
        ("x/y/a.gen.py", True),
        ("private/a.py", True),
        ("private/x/a.py", True),
        ("x/private/a.py", False),
        ("docs/a.txt", True),
        ("docs/x/a.txt", False),
    ],
)
def test_patterns_count_from_the_files_folder(root: Path, name: str, hidden: bool) -> None:
    """Whether the hidden file exists makes no difference."""
    found = ComposerIgnore().hidden_by(str(root / name))
    assert found == (str(root / ".composerignore") if hidden else None)


@pytest.mark.parametrize(
    ("nested", "name", "hidden"),
    [
        (["!keep.gen.py"], "x/keep.gen.py", False),
        (["!keep.gen.py"], "x/y/keep.gen.py", False),
        (["!keep.gen.py"], "keep.gen.py", True),
        (["!keep.gen.py"], "x/other.gen.py", True),
        (["more.py"], "x/more.py", True),
        (["more.py"], "more.py", False),
        (["/more.py"], "x/y/more.py", False),
        (["!keep.gen.py", "keep*"], "x/keep.gen.py", True),
    ],
)
def test_the_nearest_rule_wins(root: Path, nested: list[str], name: str, hidden: bool) -> None:
    write(root / "x/.composerignore", *nested)
    assert (ComposerIgnore().hidden_by(str(root / name)) is not None) is hidden


def test_what_lies_in_a_hidden_folder_cannot_be_brought_back(root: Path) -> None:
    write(root / "private/.composerignore", "!*")
    found = ComposerIgnore().hidden_by(str(root / "private/a.py"))
    assert found == str(root / ".composerignore")


def test_changes_count_at_once(tmp_path: Path) -> None:
    """No waiting: times of files tick too coarsely to tell two changes apart."""
    ignores = ComposerIgnore()
    file = str(tmp_path / "x/a.py")
    rules = tmp_path / ".composerignore"

    assert ignores.hidden_by(file) is None
    write(rules, "a.py")
    assert ignores.hidden_by(file) == str(rules)
    for _ in range(50):
        write(rules, "b.py")
        assert ignores.hidden_by(file) is None
        write(rules, "a.py")
        assert ignores.hidden_by(file) == str(rules)
    rules.unlink()
    assert ignores.hidden_by(file) is None
    nearer = write(tmp_path / "x/.composerignore", "*")
    assert ignores.hidden_by(file) == str(nearer)


@pytest.mark.parametrize(
    ("settled_ns", "num_expected"), [(0, 1), (10**15, 3)], ids=["long ago", "just now"]
)
def test_a_file_is_read_again_only_if_it_may_have_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch, settled_ns: int, num_expected: int
) -> None:
    """Of one that was written just now, the times cannot tell whether it was written once more."""
    monkeypatch.setattr("composer_index.ignores.composerignore._SETTLED_NS", settled_ns)
    num_reads = 0
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        nonlocal num_reads
        num_reads += 1
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    ignores = ComposerIgnore()
    for name in ("a.py", "b.gen.py", "x/y/c.py"):
        ignores.hidden_by(str(root / name))
    assert num_reads == num_expected
    write(root / ".composerignore", "a.py", "longer.py")
    assert ignores.hidden_by(str(root / "a.py")) is not None
    assert num_reads == num_expected + 1


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"caf\xe9.py\n", id="Latin-1"),
        pytest.param("a.py\n".encode("utf-16"), id="UTF-16"),
        pytest.param(b"#" * (1 << 20) + b"\na.py\n", id="huge"),
        pytest.param("folder", id="a folder"),
        pytest.param("pipe", id="a pipe"),
    ],
)
def test_rules_that_cannot_be_known_hide_everything_beside_them(
    tmp_path: Path, content: bytes | str, caplog: pytest.LogCaptureFixture
) -> None:
    rules = tmp_path / "x/.composerignore"
    rules.parent.mkdir()
    match content:
        case "folder":
            rules.mkdir()
        case "pipe":
            os.mkfifo(rules)
        case _:
            assert isinstance(content, bytes)
            rules.write_bytes(content)
    ignores = ComposerIgnore()
    for name in ("x/a.py", "x/y/b.py"):
        assert ignores.hidden_by(str(tmp_path / name)) == str(rules)
    assert ignores.hidden_by(str(tmp_path / "c.py")) is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert str(rules) in record.getMessage()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_hides_everything_until_it_can_be_read(tmp_path: Path) -> None:
    rules = write(tmp_path / ".composerignore", "b.py")
    rules.chmod(0)
    ignores = ComposerIgnore()
    assert ignores.hidden_by(str(tmp_path / "a.py")) == str(rules)
    rules.chmod(0o600)
    assert ignores.hidden_by(str(tmp_path / "a.py")) is None


def test_a_malformed_line_is_skipped_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = write(tmp_path / ".composerignore", "# fine", "[oops", "a.py")
    ignores = ComposerIgnore()
    for _ in range(3):
        assert ignores.hidden_by(str(tmp_path / "a.py")) is not None
        assert ignores.hidden_by(str(tmp_path / "[oops")) is None
    assert [record.getMessage() for record in caplog.records] == [
        f'{rules}:2 is no pattern and is skipped: "[oops" has a "[" without its "]"'
    ]


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / ".composerignore").write_bytes(b"\xef\xbb\xbfa.py\r\nb.py\r\n")
    for name in ("a.py", "b.py"):
        assert ComposerIgnore().hidden_by(str(tmp_path / name)) is not None


def test_names_that_are_no_utf_8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    write(folder / ".composerignore", "[", "*.py")
    assert ComposerIgnore().hidden_by(str(folder / "a.py")) is not None
    caplog.records[0].getMessage().encode()


@pytest.mark.parametrize("name", ["x" * 300, "file/inside"])
def test_folders_that_cannot_exist(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert ComposerIgnore().hidden_by(str(tmp_path / name / "a.py")) is None


def test_links_neither_from_nor_to_a_hidden_path(tmp_path: Path) -> None:
    write(tmp_path / "w/.composerignore", "hidden.py", "linked/")
    write(tmp_path / "w/hidden.py")
    write(tmp_path / "elsewhere/plain.py")
    (tmp_path / "to_hidden.py").symlink_to(tmp_path / "w/hidden.py")
    (tmp_path / "w/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "w/fine").symlink_to(tmp_path / "elsewhere")
    hidden = HiddenFiles()
    rules = tmp_path / "w/.composerignore"
    for name in ("to_hidden.py", "w/linked/plain.py", "w/fine/../../w/hidden.py"):
        assert hidden.why_hidden(str(tmp_path / name)) == f"is hidden by {rules}", name
    for name in ("elsewhere/plain.py", "w/fine/plain.py"):
        assert hidden.why_hidden(str(tmp_path / name)) is None, name
