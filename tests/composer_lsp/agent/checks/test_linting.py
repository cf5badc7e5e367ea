"""Real linters on staged edits, and linters that fail."""

import stat
from dataclasses import replace

import pytest

from composer_lsp.agent.checks.configured import has_file
from composer_lsp.agent.checks.linters import LINTERS, Linter
from composer_lsp.agent.checks.parsers import by_pattern
from tests.composer_lsp.agent.checks.conftest import Project

RUFF = {"ruff.toml": 'lint.select = ["F"]\n'}
HEAD = "Your edits brought these problems:"


def fake(name: str, languages: tuple[str, ...] = ("python",)) -> Linter:
    """Whose program a test writes (`install`)."""
    return Linter(
        name=name,
        languages=frozenset(languages),
        is_configured=has_file(f"{name}.cfg"),
        args=(),
        parse=by_pattern(r"^(?P<path>[^:\n]+):(?P<line>\d+): (?P<message>.+)"),
        timeout_s=60,
    )


def install(project: Project, name: str, script: str) -> None:
    program = project.root / ".venv/bin" / name
    project.has({f".venv/bin/{name}": f"#!/bin/sh\n{script}\n", f"{name}.cfg": ""})
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


async def test_tells_what_is_new(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n\n\ndef one():\n    return 1\n"})
    await project.write("a.py", "import os\nimport re\n\n\ndef one():\n    return nope\n")
    assert await project.check() == [
        HEAD,
        "a.py:2: F401 `re` imported but unused (ruff)",
        "a.py:6: F821 Undefined name `nope` (ruff)",
    ]
    assert project.notes == []


async def test_tells_nothing_of_what_was_there_on_another_line(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\nprint(nope)\n"})
    await project.write("a.py", "# A comment.\n\nimport os\nprint(nope)\n")
    assert await project.check() == []


async def test_a_line_number_in_a_message_may_change(project: Project) -> None:
    text = "def one():\n    pass\n\n\ndef one():\n    pass\n"
    project.has({**RUFF, "a.py": text})
    await project.write("a.py", f"x = 1\n\n\n{text}")
    assert await project.check() == []
    assert len(project.runner.commands) == 2


async def test_counts_equal_problems(project: Project) -> None:
    project.has({**RUFF, "a.py": "print(1)\nprint(nope)\n"})
    await project.write("a.py", "print(nope)\nprint(nope)\n")
    assert await project.check() == [HEAD, "a.py:1: F821 Undefined name `nope` (ruff)"]


async def test_tells_of_new_and_moved_files(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n"})
    await project.write("b.py", "import re\n")
    await project.move("a.py", "c.py")
    assert await project.check() == [HEAD, "b.py:1: F401 `re` imported but unused (ruff)"]


async def test_tells_nothing_of_deleted_files(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n"})
    await project.write("a.py", None)
    assert await project.check() == []
    assert project.runner.commands == []


async def test_looks_only_at_what_changed_since(project: Project) -> None:
    project.has({**RUFF, "a.py": "", "b.py": ""})
    await project.write("a.py", "import os\n")
    assert await project.check() == [HEAD, "a.py:1: F401 `os` imported but unused (ruff)"]
    assert await project.check() == []
    await project.write("b.py", "import re\n")
    assert await project.check() == [HEAD, "b.py:1: F401 `re` imported but unused (ruff)"]
    await project.write("a.py", "import os\n\nx = 1\n")
    assert await project.check() == [HEAD, "a.py:1: F401 `os` imported but unused (ruff)"]


async def test_asks_once_what_was_there_before(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n"})
    for number in range(3):
        await project.write("a.py", f"import os\nx = {number}\n")
        assert await project.check() == []
    assert len(project.runner.commands) == 4


async def test_runs_nothing_twice_where_nothing_is_wrong(project: Project) -> None:
    project.has({**RUFF, "a.py": "import os\n"})
    await project.write("a.py", "x = 1\n")
    assert await project.check() == []
    assert len(project.runner.commands) == 1


async def test_runs_where_it_is_configured(project: Project) -> None:
    project.has({"api/ruff.toml": RUFF["ruff.toml"], "api/src/a.py": "", "web/a.py": ""})
    await project.write("api/src/a.py", "import os\n")
    await project.write("web/a.py", "import os\n")
    assert await project.check() == [HEAD, "api/src/a.py:1: F401 `os` imported but unused (ruff)"]
    assert {command[-1] for command in project.runner.commands} == {"src/a.py"}


async def test_obeys_what_the_project_excludes(project: Project) -> None:
    project.has({"ruff.toml": 'exclude = ["gen"]\nlint.select = ["F"]\n', "gen/a.py": ""})
    await project.write("gen/a.py", "import os\n")
    assert await project.check() == []
    assert len(project.runner.commands) == 1


async def test_asks_pyright(project: Project) -> None:
    project.has({"pyrightconfig.json": "{}", "a.py": 'x: int = "1"\n'})
    pyright = [replace(each, timeout_s=120) for each in LINTERS if each.name == "pyright"]
    project.linters, project.limit_s = pyright, 240
    await project.write("a.py", 'x: int = "1"\ny: str = 2\n')
    _, line = await project.check()
    assert line.startswith("a.py:2: reportAssignmentType ")
    assert line.endswith(" (pyright)")


async def test_a_broken_configuration_is_the_users_to_know(project: Project) -> None:
    project.has({"ruff.toml": "[lint", "a.py": ""})
    await project.write("a.py", "import os\n")
    assert await project.check() == []
    await project.write("a.py", "import re\n")
    assert await project.check() == []
    (note,) = project.notes
    assert note.startswith("Left out after edits: ruff failed: ")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo Traceback >&2; exit 1", "lint failed: Traceback"),
        ("exit 3", "lint failed: code 3"),
    ],
    ids=["crash", "silence"],
)
async def test_a_linter_that_fails_tells_nothing(project: Project, script: str, why: str) -> None:
    project.linters = [fake("lint")]
    install(project, "lint", script)
    project.has({"a.py": ""})
    await project.write("a.py", "x = 1\n")
    assert await project.check() == []
    assert project.notes == [f"Left out after edits: {why}."]


async def test_a_linter_without_end_is_left_out_for_the_run(project: Project) -> None:
    project.linters = [replace(fake("lint"), timeout_s=0.2)]
    install(project, "lint", "exec sleep 600")
    project.has({"a.py": ""})
    for text in ("x = 1\n", "x = 2\n"):
        await project.write("a.py", text)
        assert await project.check() == []
    assert len(project.runner.commands) == 1
    assert project.notes == [
        "Left out for the rest of the run: lint did not end within 0 s, or was ended."
    ]


async def test_all_linters_together_have_a_limit(project: Project) -> None:
    project.linters, project.limit_s = [fake("fast"), fake("slow")], 5.0
    install(project, "fast", 'echo "$1:1: bad"; exit 1')
    install(project, "slow", "exec sleep 600")
    await project.write("b.py", "x = 1\n")
    assert await project.check() == [HEAD, "b.py:1: bad (fast)"]
    assert project.notes == ["Left out for the rest of the run: slow did not end in time."]


async def test_at_most_two_run_at_a_time(project: Project) -> None:
    names = ["one", "two", "three", "four"]
    project.linters = [fake(name) for name in names]
    for name in names:
        install(project, name, 'echo "$1:1: bad"; exit 1')
    await project.write("b.py", "x = 1\n")
    assert len(await project.check()) == 1 + len(names)
    assert project.runner.num_at_once == 2


async def test_tells_only_of_what_was_changed(project: Project) -> None:
    project.linters = [replace(fake("lint"), target="project")]
    install(project, "lint", "echo a.py:1: bad; echo b.py:1: bad; exit 1")
    project.has({"a.py": ""})
    await project.write("b.py", "x = 1\n")
    assert await project.check() == [HEAD, "b.py:1: bad (lint)"]


async def test_tells_of_errors_and_warnings_alone(project: Project) -> None:
    parse = by_pattern(r"^(?P<path>[^:\n]+):(?P<line>\d+): (?P<severity>\w+): (?P<message>.+)")
    project.linters = [replace(fake("lint"), parse=parse)]
    install(project, "lint", 'for s in error warning note; do echo "$1:1: $s: bad"; done; exit 1')
    await project.write("b.py", "x = 1\n")
    assert await project.check() == [HEAD, "b.py:1: bad (lint)", "b.py:1: bad (lint)"]


async def test_tells_the_user_once_where_no_linter_sees_the_edits(project: Project) -> None:
    project.has({**RUFF, "a.py": ""})
    project.runner.why_not_staged = "there is no overlay"
    for text in ("import os\n", "import re\n"):
        await project.write("a.py", text)
        assert await project.check() == []
    assert project.runner.commands == []
    assert project.notes == ["No linter looks at the edits: there is no overlay."]


async def test_tells_the_user_once_where_there_is_no_sandbox(project: Project) -> None:
    project.has({**RUFF, "a.py": ""})
    project.runner.has_sandbox = False
    for text in ("import os\n", "import re\n"):
        await project.write("a.py", text)
        assert await project.check() == []
    assert project.notes == ["Left out after edits: ruff was not run: there is no sandbox."]


async def test_a_program_that_is_missing_is_no_problem(project: Project) -> None:
    project.linters = [fake("no-such-linter")]
    project.has({"no-such-linter.cfg": "", "a.py": ""})
    await project.write("a.py", "x = 1\n")
    assert await project.check() == []
    assert project.notes == []


async def test_shows_twenty_and_counts_the_rest(project: Project) -> None:
    project.has({**RUFF, "a.py": ""})
    await project.write("a.py", "".join(f"print(x{number})\n" for number in range(23)))
    lines = await project.check()
    assert len(lines) == 22
    assert lines[-1] == "and 3 more"
