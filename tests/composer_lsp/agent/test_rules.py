"""The project's own instructions: which files are read, and in which order."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_lsp.agent.agent import Agent
from composer_lsp.agent.model import Message
from composer_lsp.agent.prompt.rules import MAX_CHARS, RulesFile, read_rules
from composer_lsp.agent.prompt.system import Request, led_system_message, system_message
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from tests.composer_lsp.agent.scripted import ScriptedModel

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


def read(root: Path, focus: str = "", request: str = "") -> dict[str, str]:
    return read_in([root], focus, request)


def read_in(roots: list[Path], focus: str = "", request: str = "") -> dict[str, str]:
    workspace = DirectoryWorkspace(Paths(roots))
    return {each.path: each.text for each in asyncio.run(read_rules(workspace, focus, request))}


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


WHOLE = ["cursor", "old cursor", "copilot", "whole", "for claude"]


@pytest.mark.parametrize(
    ("request_", "nested"),
    [
        ("Mend src/web/page.py:7.", ["web cursor", "web", "src"]),
        ("Write `./src/new.py`, please", ["src"]),
        (r"Mend src\web\page.py", ["web cursor", "web", "src"]),
        ("Tidy up docs/.", ["docs"]),
        ("Tidy up docs.", []),
        ("What does page.py do?", ["web cursor", "web", "src"]),
        ("What does web/page.py do?", ["web cursor", "web", "src"]),
        ("What does __init__.py do?", []),
        ("Move docs/a.md to src/a.md", ["docs", "src"]),
        ("Is srcs/web a web?", []),
        ("Go on, e.g. with the whole...", []),
    ],
)
def test_those_of_what_the_request_names_hold(root: Path, request_: str, nested: list[str]) -> None:
    for path in ("src/web/page.py", "src/__init__.py", "docs/__init__.py"):
        (root / path).write_text("")
    assert list(read(root, request=request_).values()) == [*nested, *WHOLE]


def test_those_of_the_file_that_the_user_is_in_are_nearer(root: Path) -> None:
    told = read(root, "docs/a.md", "As in src/web/page.py")
    assert list(told.values()) == ["docs", "web cursor", "web", "src", *WHOLE]


@pytest.mark.parametrize(
    ("focus", "request_", "expected"),
    [
        ("", "", ["shop/AGENTS.md", "till/AGENTS.md"]),
        ("till/a.py", "", ["till/AGENTS.md", "shop/AGENTS.md"]),
        ("till/in/a.py", "", ["till/in/AGENTS.md", "till/AGENTS.md", "shop/AGENTS.md"]),
        ("", "Mend in/new.py", ["till/in/AGENTS.md", "till/AGENTS.md", "shop/AGENTS.md"]),
    ],
)
def test_of_several_roots_those_of_each_hold(
    tmp_path: Path, focus: str, request_: str, expected: list[str]
) -> None:
    for path in ("shop/AGENTS.md", "till/AGENTS.md", "till/in/AGENTS.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    told = read_in([tmp_path / "shop", tmp_path / "till"], focus, request_)
    assert list(told) == expected


@pytest.mark.parametrize("message", [system_message, led_system_message])
def test_the_prompt_has_the_nearest_first(message: Callable[..., Message]) -> None:
    rules = [RulesFile("src/AGENTS.md", "near"), RulesFile("AGENTS.md", "far")]
    roots = {} if message is led_system_message else {"roots": ["."]}
    text = str(message(mode="plan", rules=rules, **roots)["content"])
    assert text.index("the nearest come first") < text.index("near\n") < text.index("far")
    alone = str(message(mode="plan", rules=rules[:1], **roots)["content"])
    assert "the nearest come first" not in alone


def test_a_run_is_told_those_of_what_it_was_asked_about(root: Path, tmp_path: Path) -> None:
    model = ScriptedModel("Done.")
    workspace = DirectoryWorkspace(Paths([root]))
    agent = Agent(workspace=workspace, model=model, transcripts=tmp_path / "transcripts")
    asyncio.run(agent.run(Request(mode="ask", text="What is in src/a.py?"), lambda event: None))
    system = model.requests[0][0]["content"]
    assert system.index("src/AGENTS.md:\nsrc") < system.index("AGENTS.md:\nwhole")
