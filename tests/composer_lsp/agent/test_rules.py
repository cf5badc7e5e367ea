"""The project's own instructions: which files are read, and in which order."""

import asyncio
from pathlib import Path

import pytest

from composer_lsp.agent.prompt.rules import MAX_CHARS, read_rules
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths

ALL = {
    "AGENTS.md": "whole",
    "CLAUDE.md": "for claude",
    ".cursorrules": "old cursor",
    ".cursor/rules/style.mdc": "cursor",
    ".github/copilot-instructions.md": "copilot",
    "src/AGENTS.md": "src",
    "src/web/AGENTS.md": "web",
    "src/web/.cursor/rules/web.mdc": "web cursor",
    "docs/AGENTS.md": "docs",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in ALL.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    return tmp_path


def read(root: Path, focus: str = "") -> dict[str, str]:
    workspace = DirectoryWorkspace(Paths([root]))
    return {each.path: each.text for each in asyncio.run(read_rules(workspace, focus))}


def test_the_nearest_come_first_and_those_of_other_folders_not(root: Path) -> None:
    assert list(read(root, "src/web/page.py").values()) == [
        "web cursor",
        "web",
        "src",
        "cursor",
        "old cursor",
        "copilot",
        "whole",
        "for claude",
    ]


def test_without_a_file_those_of_the_whole_hold(root: Path) -> None:
    assert set(read(root).values()) == {"whole", "for claude", "old cursor", "cursor", "copilot"}


def test_the_same_text_is_told_once(root: Path) -> None:
    (root / "CLAUDE.md").unlink()
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    assert list(read(root).values()).count("whole") == 1


def test_there_is_an_end_to_them(root: Path) -> None:
    (root / "src/web/AGENTS.md").write_text("x" * 2 * MAX_CHARS)
    told = read(root, "src/web/page.py")
    assert list(told) == ["src/web/.cursor/rules/web.mdc", "src/web/AGENTS.md"]
    assert "characters are left out here" in told["src/web/AGENTS.md"]


def test_hidden_rules_are_not_read(root: Path) -> None:
    (root / ".composerignore").write_text("CLAUDE.md\n")
    assert "CLAUDE.md" not in read(root)
