"""The checks as a run calls them, and as the tool `diagnostics` does."""

import gc
import os
from pathlib import Path

import pytest

from composer_lsp.agent.checks import make_checks
from composer_lsp.agent.commands import Approvals, CommandRunner, Policy
from composer_lsp.agent.events import NoticeEvent
from composer_lsp.agent.run import AgentRun
from composer_lsp.agent.tools.code import diagnostics_tool
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.sets import tools_for
from composer_lsp.agent.transcript import Header, Transcript
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import PathError, Paths
from tests.composer_lsp.agent.checks.conftest import PlainRunner, Project
from tests.composer_lsp.agent.checks.test_duplicates import AGAIN, SLUG
from tests.composer_lsp.agent.checks.test_linting import fake, install
from tests.composer_lsp.agent.scripted import ScriptedModel

RUFF = {"ruff.toml": 'lint.select = ["F"]\n'}


def ignore(event: NoticeEvent) -> None:
    pass


async def test_the_model_is_told_after_its_edit(project: Project) -> None:
    project.has({**RUFF, "text.py": f"import re, unicodedata\n\n\n{SLUG}", "a.py": "x = 1\n"})
    text = f"import os, re, unicodedata\n\n\n{AGAIN}"
    model = ScriptedModel([("write_file", {"path": "b.py", "text": text})], "It is written.")
    run = AgentRun(
        model=model,
        tools=tools_for("edit", has_index=False, has_diagnostics=False),
        context=project.context,
        transcript=Transcript(header=Header(id="t", mode="edit", request="", roots=("/",))),
        emit=lambda event: None,
        checks=make_checks(project.context.workspace, None, project.runner, ignore),
    )
    await run.run([{"role": "user", "content": "do it"}])
    assert model.requests[1][-1] == {
        "role": "user",
        "content": "[checks] Your edits brought these problems:\n"
        "b.py:1: F401 `os` imported but unused (ruff)\n\n"
        "b.py:4 slugify looks like text.py:4 to_slug (100% the same); use it if it does the same",
    }


async def test_nothing_runs_where_nothing_is_configured(project: Project) -> None:
    project.has({"a.py": "x = 1\n"})
    await project.write("a.py", "import os\n")
    assert await project.check() == []
    assert project.runner.commands == []


async def test_each_run_begins_anew(project: Project) -> None:
    project.has({**RUFF, "a.py": ""})
    for _ in range(2):
        project.context = ToolContext(workspace=project.context.workspace)
        await project.write("a.py", "import os\n")
        assert len(await project.check()) == 2


async def test_a_run_that_is_over_is_forgotten(project: Project) -> None:
    project.has({"a.py": ""})
    await project.write("a.py", "x = 1\n")
    await project.check()
    assert project.checks.num_runs == 1
    project.context = ToolContext(workspace=project.context.workspace)
    gc.collect()
    assert project.checks.num_runs == 0


async def test_diagnostics_are_the_linters(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n"})
    tool = diagnostics_tool(project.checks.diagnostics)
    assert await tool.call(project.context, {"path": "a.py"}) == (
        "a.py:1: error: F401 `os` imported but unused (ruff)"
    )
    await project.write("a.py", "\nimport re\n")
    assert await tool.call(project.context, {"path": "a.py"}) == (
        "a.py:2: error: F401 `re` imported but unused (ruff)"
    )
    assert await tool.call(project.context, {}) == "No errors or warnings are known."


async def test_diagnostics_without_linters_are_none(project: Project) -> None:
    project.has({"a.py": "import os\n", "b/ruff.toml": "[lint", "b/a.py": "import os\n"})
    tool = diagnostics_tool(project.checks.diagnostics)
    for path in ("a.py", "b/a.py"):
        found = await tool.call(project.context, {"path": path})
        assert found == "No errors or warnings are known."
    (note,) = project.notes
    assert note.startswith("ruff failed: ")


async def test_diagnostics_tell_nothing_of_what_is_outside(project: Project) -> None:
    tool = diagnostics_tool(project.checks.diagnostics)
    with pytest.raises(PathError):
        await tool.call(project.context, {"path": "../a.py"})


async def test_runs_in_the_sandbox(project: Project, tmp_path: Path) -> None:
    project.linters = [fake("lint")]
    install(project, "lint", """sed -n "s/.*bad.*/$1:1: a bad word/p" "$1"; exit 1""")
    project.has({"a.py": "x = 'bad'\n"})
    runner = CommandRunner(
        [project.root],
        Approvals(Policy(()), None),
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        home=tmp_path,
        scratch=[tmp_path / "scratch"],
    )
    project.sandboxed = runner
    await runner.open()
    try:
        if not runner.shows_staged and "COMPOSER_REQUIRE_SANDBOX" not in os.environ:
            pytest.skip(runner.why_not_staged or "")
        await project.write("a.py", "x = 'bad'\ny = 'bad'\n")
        told = await project.check()
        assert project.notes == []
        assert told[1:] == ["a.py:1: a bad word (lint)"]
    finally:
        await runner.aclose()
    assert (project.root / "a.py").read_text() == "x = 'bad'\n"


async def test_unsaved_text_counts_as_the_file(project: Project) -> None:
    project.has({**RUFF, "a.py": "", "b.py": "x = 1\n"})

    class Unsaved(DirectoryWorkspace):
        async def unsaved(self) -> dict[str, str]:
            return {"b.py": "y = 1\n"}

    seen: list[dict[Path, bytes | None]] = []

    class Watched(PlainRunner):
        async def check(self, command, cwd, /, *, timeout_s, staged):  # type: ignore[no-untyped-def]
            seen.append(dict(staged))
            return await super().check(command, cwd, timeout_s=timeout_s, staged=staged)

    workspace = Unsaved(Paths([project.root]))
    project.context = ToolContext(workspace=workspace)
    project.runner = Watched()
    await project.write("a.py", "x = 1\n")
    assert await project.check() == []
    assert seen == [{project.root / "a.py": b"x = 1\n", project.root / "b.py": b"y = 1\n"}]
