"""Past runs in a terminal: listed, shown, exported, gone on with."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_lsp.agent.transcript import FORMAT
from tests.composer_lsp.cli.conftest import Cli
from tests.support.chat_server import FakeChat, fake_chat

EDIT = ("edit_file", {"path": "a.py", "edits": [{"old": "return 1", "new": "return 2"}]})
FINISH = ("finish", {"summary": "It is two."})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("def one():\n    return 1\n")
    return folder


@pytest.fixture
def chat() -> Iterator[FakeChat]:
    with fake_chat() as server:
        yield server


@pytest.fixture
def ran(cli: Cli, project: Path, chat: FakeChat) -> str:
    """The id of a run that changed a file, which was not applied."""
    chat.replies.extend(([EDIT], [FINISH]))
    options = ["--root", str(project), "--url", chat.url, "--no-index"]
    done = cli("edit", "Make it two.", *options)
    assert done.returncode == 3, done.stderr
    return cli("transcript", "list").stdout.split()[0]


def test_list_names_each_run(cli: Cli, ran: str, project: Path) -> None:
    (line,) = cli("transcript", "list", "--root", str(project)).stdout.splitlines()
    assert line.startswith(f"{ran}  just now")
    assert line.endswith("finished   edit   Make it two.")
    other = cli("transcript", "list", "--root", str(project.parent))
    assert (other.stdout, other.stderr) == ("", "No run is kept.\n")


def test_list_refuses_a_folder_that_is_none(cli: Cli, ran: str, project: Path) -> None:
    done = cli("transcript", "list", "--root", "/nonexistent")
    assert done.returncode == 2
    assert done.stderr == "composer-lsp: /nonexistent is no folder, and no run on it is kept\n"
    project.rename(project.with_name("moved"))
    assert ran in cli("transcript", "list", "--root", str(project)).stdout


def test_a_beginning_of_the_id_is_enough(cli: Cli, ran: str) -> None:
    for id in (ran, ran[:12], "last"):
        shown = cli("transcript", "show", id)
        assert shown.returncode == 0
        assert shown.stdout.startswith("# Make it two.\n")
    assert "+    return 2" in shown.stdout


def test_show_as_json(cli: Cli, ran: str) -> None:
    lines = cli("transcript", "show", ran, "--json").stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("header", "end")


def test_export_writes_markdown_or_json(cli: Cli, ran: str, tmp_path: Path) -> None:
    for name, begin in (("run.md", "# Make it two.\n"), ("run.jsonl", '{"kind": "header"')):
        assert cli("transcript", "export", ran, str(tmp_path / name)).returncode == 0
        assert (tmp_path / name).read_text().startswith(begin)


def test_resume_goes_on_and_applies(cli: Cli, ran: str, chat: FakeChat, project: Path) -> None:
    chat.replies.append("It was two already.")
    options = ["--url", chat.url, "--no-index", "--yes"]
    done = cli("transcript", "resume", ran, "Is", "it?", *options)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "It was two already.")
    assert chat.requests[-1]["messages"][-1] == {"role": "user", "content": "Is it?"}
    assert (project / "a.py").read_text() == "def one():\n    return 2\n"
    lines = cli("transcript", "show", ran, "--json").stdout.splitlines()
    assert json.loads(lines[-1])["kind"] == "verdict"
    assert json.loads(lines[-1])["accepted"] == [0]


def test_resume_offers_what_was_not_applied(
    cli: Cli, ran: str, chat: FakeChat, project: Path
) -> None:
    """The model is not asked: nothing listens where it would be."""
    options = ["--url", "http://127.0.0.1:9/v1"]
    asked = cli("transcript", "resume", ran, *options)
    assert asked.returncode == 3, asked.stderr
    assert "+    return 2" in asked.stdout
    done = cli("transcript", "resume", ran, "--yes", *options)
    assert (done.returncode, done.stderr) == (
        0,
        "Not applied yet: a.py.\nChanged a.py.\n",
    )
    assert (project / "a.py").read_text() == "def one():\n    return 2\n"
    # What was applied once is the user's from then on.
    (project / "a.py").write_text("def one():\n    return 1\n")
    again = cli("transcript", "resume", ran, "--yes", "--no-index", "--url", chat.url)
    assert again.returncode == 2
    assert "the run has finished; say what to do next" in again.stderr


def test_resume_says_why_what_was_not_applied_cannot_be(cli: Cli, ran: str, project: Path) -> None:
    (project / "a.py").write_text("def one():\n    return 3\n")
    done = cli("transcript", "resume", ran, "--yes")
    assert done.returncode == 2
    assert "the change to a.py is not pending any more" in done.stderr
    assert "none of the run's changes can be applied; say what to do next" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("ID", "--yes", "--url", "URL", "--no-index", "Is", "it?"),
        ("--yes", "ID", "Is", "--url", "URL", "--no-index", "it?"),
        ("--no-index", "--yes", "--url", "URL", "ID", "--", "Is", "it?"),
    ],
)
def test_options_stand_wherever_they_like(
    cli: Cli, ran: str, chat: FakeChat, arguments: tuple[str, ...]
) -> None:
    chat.replies.append("It was two already.")
    given = [{"ID": ran, "URL": chat.url}.get(each, each) for each in arguments]
    done = cli("transcript", "resume", *given)
    assert done.returncode == 0, done.stderr
    assert chat.requests[-1]["messages"][-1] == {"role": "user", "content": "Is it?"}


@pytest.mark.parametrize("limit", ["-1", "0", "many"])
def test_a_limit_that_is_none_is_told(cli: Cli, limit: str) -> None:
    done = cli("transcript", "list", "--limit", limit)
    assert done.returncode == 2
    assert "argument --limit" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("show", ""), "there is no run ''; `composer-lsp transcript list`"),
        (("show", "nothing"), "there is no run nothing; `composer-lsp transcript list`"),
    ],
)
def test_what_cannot_be_done_is_told(
    cli: Cli, ran: str, arguments: tuple[str, ...], error: str
) -> None:
    done = cli("transcript", *arguments)
    assert done.returncode == 2
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_several_runs_that_begin_alike_are_named(cli: Cli, ran: str, home: Path) -> None:
    folder = home / "state" / "transcripts"
    (folder / f"{ran}x.jsonl").write_text("{}\n")
    done = cli("transcript", "show", ran[:10])
    assert done.returncode == 2
    assert f"2 runs begin with {ran[:10]}" in done.stderr
    assert cli("transcript", "show", ran).returncode == 0  # an id that is whole is one
    listed = cli("transcript", "list")
    assert "is no transcript of this version" in listed.stderr
    assert ran in listed.stdout


HEADER: dict[str, object] = {
    **{"kind": "header", "format": FORMAT, "id": "z"},
    **{"mode": "ask", "request": "?", "roots": []},
}


@pytest.mark.parametrize(
    "text",
    [json.dumps({**HEADER, "began": 1e20}), f"{json.dumps(HEADER)}\n{'[' * 100_000}"],
    ids=["a field", "deep"],
)
def test_one_that_is_damaged_is_told(
    cli: Cli, ran: str, home: Path, chat: FakeChat, text: str, tmp_path: Path
) -> None:
    (home / "state" / "transcripts" / "z.jsonl").write_text(f"{text}\n")
    listed = cli("transcript", "list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [ran]
    (line,) = listed.stderr.splitlines()
    assert "z.jsonl is" in line
    for command in (
        ("show", "z"),
        ("export", "z", str(tmp_path / "z.md")),
        ("resume", "z", "--url", chat.url, "--no-index", "go"),
    ):
        done = cli("transcript", *command)
        assert (done.returncode, done.stderr) == (2, listed.stderr)


def test_one_that_is_damaged_is_shown_and_exported_as_it_is(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    folder = home / "state" / "transcripts"
    folder.mkdir(parents=True)
    (folder / "z.jsonl").write_bytes(b"{}\n\xff\n")
    assert cli("transcript", "show", "z", "--json").stdout == "{}\n\ufffd\n"
    assert cli("transcript", "export", "z", str(tmp_path / "z.jsonl")).returncode == 0
    assert (tmp_path / "z.jsonl").read_bytes() == b"{}\n\xff\n"


def test_one_of_a_mode_that_is_none_is_not_gone_on_with(
    cli: Cli, ran: str, home: Path, chat: FakeChat
) -> None:
    path = home / "state" / "transcripts" / f"{ran}.jsonl"
    path.write_text(path.read_text().replace('"mode": "edit"', '"mode": "weird"', 1))
    done = cli("transcript", "resume", ran, "--url", chat.url, "--no-index", "go")
    assert done.returncode == 2
    assert "the run has the mode 'weird', which is none; ask again" in done.stderr
