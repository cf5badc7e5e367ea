"""The agent in a terminal, with the model's side of the protocol played."""

import argparse
import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from composer_lsp.agent.agent import Finished
from composer_lsp.agent.commands import Approvals, CommandRunner, Policy, SandboxError
from composer_lsp.agent.commands.bubblewrap import find_bubblewrap
from composer_lsp.agent.events import (
    CallEvent,
    EditsEvent,
    Event,
    NoticeEvent,
    OutputEvent,
    PlanEvent,
    ResultEvent,
    TextEvent,
)
from composer_lsp.agent.run import Outcome
from composer_lsp.cli import ask
from composer_lsp.cli.agent_output import JsonOutput
from composer_lsp.cli.agent_run import Beginning
from tests.composer_lsp.agent.mcp import started
from tests.composer_lsp.cli.conftest import Cli
from tests.support.chat_server import HANG, FakeChat, Said, fake_chat

LIMIT_S = 120
DONE: Said = [("finish", {"summary": "Done."})]
NEW: Said = [("write_file", {"path": "new.py", "text": "x = 1\n"})]
PLAN: Said = [("update_plan", {"steps": ["Write new.py"]})]


@pytest.fixture
def project(home: Path) -> Path:
    """A small package in git, with a test that fails."""
    root = home / "shop"
    for path, text in {
        "shop/__init__.py": "",
        "shop/price.py": "def price(count):\n    return count\n",
        "tests/test_price.py": "from shop.price import price\n\n\n"
        "def test_two_cost_twenty():\n    assert price(2) == 20\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture
def sandboxed(home: Path) -> None:
    """Skips where there is no sandbox."""
    try:
        find_bubblewrap(os.environ["PATH"])
    except SandboxError as error:
        skip(str(error))


@pytest.fixture
def staging(project: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Skips where commands do not see what is staged."""
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(home / "state"))

    async def look() -> str | None:
        runner = CommandRunner([project], Approvals(Policy(), None))
        await runner.open()
        await runner.aclose()
        return runner.why_not_staged

    if (why := asyncio.run(look())) is not None:
        skip(why)


def skip(why: str) -> None:
    if os.environ.get("COMPOSER_REQUIRE_SANDBOX"):
        raise AssertionError(why)
    pytest.skip(why)


def arguments(chat: FakeChat, root: Path, *more: str) -> Sequence[str]:
    return ("edit", "--no-index", "--url", chat.url, "--root", str(root), *more, "go")


def results(chat: FakeChat) -> list[str]:
    """What the model was answered."""
    messages: list[Any] = chat.requests[-1]["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"]


@pytest.mark.usefixtures("staging")
def test_edits_tests_and_applies(cli: Cli, project: Path) -> None:
    edit: Said = [
        (
            "edit_file",
            {"path": "shop/price.py", "edits": [{"old": "count\n", "new": "count * 10\n"}]},
        )
    ]
    tested: Said = [("run_command", {"command": "python -m pytest -q"})]
    finish: Said = [("finish", {"summary": "Ten each now; all tests pass."})]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with fake_chat(edit, tested, finish) as chat:
        more = ("--allow", "python -m pytest *", "--yes")
        done = cli(*arguments(chat, project, *more), PATH=path)
    assert (done.returncode, "Ten each now; all tests pass." in done.stdout) == (0, True), done
    assert "1 passed" in results(chat)[1]
    assert "1 passed" in done.stderr  # as it came
    assert "not shown to be true" not in done.stderr
    assert "Changed shop/price.py." in done.stderr
    assert (project / "shop/price.py").read_text() == "def price(count):\n    return count * 10\n"


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes streams")
def test_it_is_started_without_an_input(project: Path, home: Path) -> None:
    folders = {f"COMPOSER_{name}_DIR": str(home / name) for name in ("RUNTIME", "DATA", "STATE")}
    with fake_chat(NEW, DONE) as chat:
        command = ("-m", "composer_lsp", *arguments(chat, project, "--yes", "--json"))
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, *command],
            env={**os.environ, **folders},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])
    assert (project / "new.py").read_text() == "x = 1\n"


@pytest.mark.usefixtures("staging")
def test_a_failing_test_is_not_said_to_pass(cli: Cli, project: Path) -> None:
    tested: Said = [("run_command", {"command": "python -m pytest -q"})]
    claim: Said = [("finish", {"summary": "All tests pass."})]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with fake_chat(tested, claim, claim) as chat:
        done = cli(*arguments(chat, project, "--allow", "python -m pytest *"), PATH=path)
    assert "1 failed" in results(chat)[0]
    assert "not shown to be true: tests pass" in done.stderr


@pytest.mark.parametrize("mode", ["edit", "fix", "test"])
def test_where_nobody_can_answer_the_model_is_told(cli: Cli, project: Path, mode: str) -> None:
    """Nor does `--yes` answer for it."""
    with fake_chat([("run_command", {"command": "touch x"})], DONE) as chat:
        done = cli(mode, *arguments(chat, project, "--yes")[1:])
    assert done.returncode == 0, done
    assert "needs an approval, and nobody can be asked" in results(chat)[0]
    assert "needs an approval, and nobody can be asked" in done.stderr
    assert not (project / "x").exists()


def test_a_rule_that_is_none_is_named(cli: Cli, project: Path) -> None:
    with fake_chat() as chat:
        done = cli(*arguments(chat, project, "--allow", "'pytest"))
    assert done.returncode == 2
    assert done.stderr == (
        'composer-lsp: --allow: the rule "\'pytest" cannot be read: No closing quotation\n'
    )


def test_an_outcome_names_what_is_not_applied(cli: Cli, project: Path) -> None:
    with fake_chat(NEW, DONE, NEW, DONE) as chat:
        as_text = cli(*arguments(chat, project))
        as_json = cli(*arguments(chat, project, "--json", "--yes"))
    assert as_text.stderr.index("Not applied yet: new.py.\n") < as_text.stderr.index("Nothing was")
    events = [json.loads(line) for line in as_json.stdout.splitlines()]
    outcome, diff, applied = events[-3:]
    assert (outcome["kind"], outcome["pending"], diff["kind"]) == ("outcome", ["new.py"], "diff")
    assert applied == {"kind": "applied", "paths": ["new.py"]}


def test_each_kind_of_json_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    output = JsonOutput()
    output.event(TextEvent(""))
    output.event(CallEvent("", "", ""))
    output.event(OutputEvent("", ""))
    output.event(ResultEvent("", "", is_error=False, duration_s=0))
    output.event(PlanEvent(()))
    output.event(EditsEvent(()))
    output.event(NoticeEvent(""))
    output.outcome(Outcome(status="finished", text=""), "", [])
    output.changes([])
    output.applied([])
    output.error("")
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(shown) == len(get_args(Event)) + 4
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for kind, *fields in shown_names(shown):
        assert f"| `{kind}` | {', '.join(f'`{name}`' for name in fields)} |" in page


def shown_names(shown: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """The kind, and the names of the other fields."""
    for each in shown:
        yield [each["kind"], *(name for name in each if name != "kind")]


@pytest.mark.parametrize("mode", ["ask", "plan", "edit", "fix", "test"])
def test_an_empty_request_is_refused(cli: Cli, project: Path, mode: str) -> None:
    told = "the request is empty; say what you want"
    with fake_chat() as chat:
        options = ("--no-index", "--url", chat.url, "--root", str(project))
        done = cli(mode, *options, " ", "")
        as_json = cli(mode, *options, "--json", "")
    assert (done.returncode, done.stderr) == (2, f"composer-lsp: {told}\n")
    assert json.loads(as_json.stdout) == {"kind": "error", "text": told}
    assert not chat.requests


@pytest.mark.parametrize(
    ("rule", "way_out"),
    [
        ("allow pytest *", "write --allow 'pytest *'"),
        ("deny git", "other rules belong into the setting composer.agent.commandRules"),
    ],
)
def test_a_rule_takes_no_decision(cli: Cli, project: Path, rule: str, way_out: str) -> None:
    with fake_chat() as chat:
        done = cli(*arguments(chat, project, "--allow", rule))
    told = f"--allow: {rule!r} begins with a decision, which is always allow; {way_out}\n"
    assert (done.returncode, done.stderr) == (2, f"composer-lsp: {told}")


def test_output_comes_as_json(cli: Cli, project: Path, sandboxed: None) -> None:
    with fake_chat([("run_command", {"command": "echo hi"})], DONE) as chat:
        done = cli(*arguments(chat, project, "--json"))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"kind": "output", "id": "call0", "text": "hi\n"} in events


# --- Keys ---------------------------------------------------------------------------------------


def in_terminal(
    home: Path,
    arguments: Sequence[str],
    keys: "Sequence[str | Callable[[subprocess.Popen[bytes]], str]]",
    *,
    has_stdout: bool = False,
    **variables: str,
) -> tuple[int, str]:
    """Run it with a terminal, on which a key is pressed at each question, or what is given is called
    and says which; what was shown, with `has_stdout` of both outputs."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    master, slave = pty.openpty()
    folders = {
        f"COMPOSER_{name}_DIR": str(home / name.lower())
        for name in ("RUNTIME", "DATA", "CACHE", "STATE")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "composer_lsp", *arguments],
        env={**os.environ, **folders, "TERM": "dumb", **variables},
        stdin=slave,
        stdout=slave if has_stdout else subprocess.DEVNULL,
        stderr=slave,
    )
    shown, left = "", list(keys)
    deadline = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 0.1)[0]:
                if process.poll() is not None:
                    break
                continue
            shown += os.read(master, 4096).decode()
            if shown.endswith(("[d]eny: ", "[y/N] ")) and left:
                key = left.pop(0)
                os.write(master, (key if isinstance(key, str) else key(process)).encode())
        assert termios.tcgetattr(slave)[3] & termios.ECHO, "the terminal was not set back"
        return process.wait(LIMIT_S), shown.replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


@pytest.mark.parametrize(
    ("keys", "answer", "result"),
    [
        ("o", "once", "Exit code 0"),
        ("S", "session", "Exit code 0"),
        ("xa", "always", "Exit code 0"),
        ("d", "deny", "the user has denied it"),
        ("n", "deny", "the user has denied it"),
        ("\x1b", "deny", "the user has denied it"),
        ("\x04", "deny", "the user has denied it"),
    ],
)
def test_a_key_answers(
    home: Path, project: Path, sandboxed: None, keys: str, answer: str, result: str
) -> None:
    line = "touch 'new\x1b[31m'\ntrue"
    with fake_chat([("run_command", {"command": line})], DONE) as chat:
        _, shown = in_terminal(home, arguments(chat, project, "--json"), f"{keys}n")
    assert "The model wants to run:\n    touch 'new\\x1b[31m'\n    true\nin " in shown
    assert "You are asked because it holds characters that cannot be seen." in shown
    assert "It would run in a sandbox, with the workspace and no network." in shown
    assert f"[d]eny: {answer}\n" in shown
    assert result in results(chat)[0]
    files = list((home / "state" / "command-rules").glob("*.json"))
    assert len(files) == (answer == "always")


def test_the_network_and_the_lack_of_a_sandbox_are_told(home: Path, project: Path) -> None:
    said: Said = [("run_command", {"command": "curl http://192.0.2.1/", "network": True})]
    with fake_chat(said, DONE) as chat:
        _, shown = in_terminal(home, arguments(chat, project), "ad", PATH="/nowhere")
    assert "It would run WITHOUT a sandbox, with all that you may do on this machine." in shown
    assert "[a]lways" not in shown
    assert "[d]eny: ?\nRun it? [o]nce, for this [s]ession, [d]eny: deny\n" in shown
    assert "there is no sandbox: bubblewrap is not installed" in results(chat)[0]


def test_changes_are_applied_at_a_key(home: Path, project: Path) -> None:
    for key, code in (("n", 3), ("y", 0)):
        with fake_chat(NEW, DONE) as chat:
            status, shown = in_terminal(home, arguments(chat, project), key)
        assert "Apply the changes to one file? [y/N] " in shown
        assert (status, (project / "new.py").exists()) == (code, code == 0)


def test_what_is_approved_cannot_move_the_cursor(home: Path, project: Path) -> None:
    hostile = "x = 1  # :rocket: a[b:b:c]\n\x1b[2A\x1b[2K\u202e# \r# fine\n"
    writes: Said = [
        ("write_file", {"path": path, "text": hostile}) for path in ("b.py", "\x1b[2Kc\u202e.py")
    ]
    with fake_chat(writes, DONE) as chat:
        status, shown = in_terminal(home, arguments(chat, project), "y", has_stdout=True)
    assert status == 0, shown
    said = re.sub(r"\x1b\[[0-9;]*m", "", shown)  # colours
    assert "+x = 1  # :rocket: a[b:b:c]\n+\\x1b[2A\\x1b[2K\\u202e# \\r# fine\n" in said
    assert "Changed \\x1b[2Kc\\u202e.py, b.py.\n" in said
    assert all(line.isprintable() for line in said.split("\n")), said


def test_changes_that_cannot_be_made_are_kept(cli: Cli, home: Path, project: Path) -> None:
    def in_the_way(process: "subprocess.Popen[bytes]") -> str:
        (project / "new.py").write_text("mine\n")
        return "y"

    with fake_chat(NEW, DONE) as chat:
        status, shown = in_terminal(home, arguments(chat, project), [in_the_way])
    assert status == 3
    assert "composer-lsp: nothing was changed, because of new.py: " in shown
    assert f'To go on: composer-lsp transcript resume {run_id(home)} "what to do next"\n' in shown
    (project / "new.py").unlink()
    with fake_chat("Done.") as chat:
        done = cli("transcript", "resume", run_id(home), "Again.", *options(chat))
    assert (done.returncode, (project / "new.py").read_text()) == (0, "x = 1\n")


def test_no_other_run_takes_changes_that_are_asked_about(
    cli: Cli, home: Path, project: Path
) -> None:
    def meanwhile(process: "subprocess.Popen[bytes]") -> str:
        done = cli("transcript", "resume", "last", "Again.", *options(chat))
        assert "is going on elsewhere" in done.stderr
        assert (done.returncode, (project / "new.py").exists()) == (2, False)
        return "y"

    with fake_chat(NEW, DONE) as chat:
        status, _ = in_terminal(home, arguments(chat, project), [meanwhile])
    assert (status, (project / "new.py").exists()) == (0, True)


@pytest.mark.parametrize("more", [("--no-index",), ("--json",)], ids=" ".join)
def test_a_run_that_can_keep_nothing_does_its_work(
    cli: Cli, home: Path, project: Path, more: Sequence[str]
) -> None:
    (home / "file").write_text("")
    with fake_chat(NEW, DONE) as chat:
        state = str(home / "file" / "state")
        options = ("--url", chat.url, "--root", str(project), "--yes", *more)
        done = cli("edit", *options, "go", COMPOSER_STATE_DIR=state)
    assert (done.returncode, (project / "new.py").exists()) == (0, True), done
    told = done.stdout if "--json" in more else done.stderr
    assert "The transcript cannot be kept (" in told
    assert ("there is no index (" in told) == ("--no-index" not in more)


def test_an_error_of_the_system_is_told_as_json(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails(*_: object) -> Finished:
        raise OSError("no more descriptors")

    parser = argparse.ArgumentParser()
    ask.add_arguments(parser)
    with fake_chat() as chat:
        args = parser.parse_args(arguments(chat, project, "--json")[1:])
        code = ask.run_in_terminal(args, Beginning(id="one", label="", start=fails))
    said = json.loads(capsys.readouterr().out)
    assert (code, said) == (2, {"kind": "error", "text": "no more descriptors"})


def options(chat: FakeChat) -> Sequence[str]:
    return ("--url", chat.url, "--no-index", "--yes")


def run_id(home: Path) -> str:
    """Of the newest run."""
    return max((home / "state" / "transcripts").glob("*.jsonl")).stem


# --- Plans --------------------------------------------------------------------------------------


def planning(chat: FakeChat, root: Path, *more: str) -> Sequence[str]:
    return ("plan", *arguments(chat, root, *more)[1:])


def test_a_plan_is_carried_out_when_the_user_agrees(home: Path, project: Path) -> None:
    with fake_chat(PLAN, "That is all.", NEW, DONE) as chat:
        status, shown = in_terminal(home, planning(chat, project), "yy")
    assert "  [>] Write new.py\nCarry out the plan of one step? [y/N] yes\n" in shown
    assert "The user has approved this plan:\n1. Write new.py\n\ngo" in str(
        chat.requests[2]["messages"][-1]["content"]
    )
    assert (status, (project / "new.py").exists()) == (0, True)


def test_a_plan_that_is_left_can_be_carried_out_later(cli: Cli, home: Path, project: Path) -> None:
    with fake_chat(PLAN, "That is all.") as chat:
        status, shown = in_terminal(home, planning(chat, project), "n")
    assert (status, len(chat.requests)) == (0, 2)
    line = f"composer-lsp transcript resume {run_id(home)} --carry-out"
    assert f"To carry the plan out: {line}\n" in shown
    with fake_chat(NEW, DONE) as chat:
        done = cli(*line.split()[1:], *options(chat))
    assert "approved this plan:\n1. Write new.py" in chat.requests[0]["messages"][-1]["content"]
    assert (done.returncode, (project / "new.py").exists()) == (0, True)
    with fake_chat() as chat:
        again = cli("transcript", "resume", "last", "--carry-out", *options(chat))
    assert (again.returncode, "is no plan that could be" in again.stderr) == (2, True)


def test_where_nobody_agrees_a_plan_is_only_told(cli: Cli, home: Path, project: Path) -> None:
    """Nor does `--yes` agree to it."""
    with fake_chat(PLAN, "That is all.") as chat:
        done = cli(*planning(chat, project, "--yes"))
    assert (done.returncode, len(chat.requests)) == (0, 2)
    assert (
        f"  [>] Write new.py\nTo carry the plan out: composer-lsp transcript resume {run_id(home)}"
        in (done.stderr)
    )


def test_a_plan_can_be_carried_out_without_a_question(cli: Cli, project: Path) -> None:
    with fake_chat(PLAN, "That is all.", NEW, DONE) as chat:
        done = cli(*planning(chat, project, "--yes", "--carry-out"))
    assert (done.returncode, (project / "new.py").exists()) == (0, True)


# --- Stopped ------------------------------------------------------------------------------------

SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]


@pytest.fixture
def nothing_ignored() -> Iterator[None]:
    """A process that is started inherits what is ignored, as `nohup` has it."""
    former = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.usefixtures("nothing_ignored")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("question", ["command", "changes"])
def test_a_signal_at_a_question_sets_the_terminal_back(
    home: Path, project: Path, number: signal.Signals, question: str
) -> None:
    def stop(process: "subprocess.Popen[bytes]") -> str:
        process.send_signal(number)
        return ""

    asking: Said = [("run_command", {"command": "touch x"})] if question == "command" else DONE
    with fake_chat(NEW, asking) as chat:
        status, shown = in_terminal(home, arguments(chat, project), [stop])
    assert status == 130
    assert "Stopped. The changes of new.py were not made. To go on: composer-lsp" in shown
    assert not (project / "new.py").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.usefixtures("nothing_ignored")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_stopped_run_says_how_to_go_on(
    cli: Cli, home: Path, project: Path, number: signal.Signals
) -> None:
    with fake_chat(NEW, HANG) as chat:
        folders = {f"COMPOSER_{name}_DIR": str(home / name.lower()) for name in ("DATA", "STATE")}
        process = subprocess.Popen(
            [sys.executable, "-m", "composer_lsp", *arguments(chat, project, "--json")],
            env={**os.environ, **folders},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert chat.hanging.wait(LIMIT_S)
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=LIMIT_S)
    outcome = json.loads(stdout.splitlines()[-1])
    id = run_id(home)
    assert (process.returncode, outcome["kind"], outcome["status"]) == (130, "outcome", "stopped")
    assert outcome["transcript"] == id
    assert outcome["text"] == (
        "Stopped. The changes of new.py were not made. "
        f'To go on: composer-lsp transcript resume {id} "what to do next"'
    )
    with fake_chat("Done.") as chat:
        done = cli("transcript", "resume", id, "what to do next", *options(chat))
    assert (done.returncode, (project / "new.py").exists()) == (0, True)


def test_a_run_that_is_stuck_says_how_to_go_on(cli: Cli, home: Path, project: Path) -> None:
    with fake_chat(*[[("read_file", {"path": "none.py"})]] * 12) as chat:
        done = cli(*arguments(chat, project))
    assert done.returncode == 1, done
    hint = f'To go on: composer-lsp transcript resume {run_id(home)} "what to do next"\n'
    assert done.stderr.endswith(hint)


# --- Tool servers -------------------------------------------------------------------------------


@pytest.fixture
def mark(home: Path) -> Path:
    return home / "started"


def mcp_file(path: Path, mark: Path) -> Path:
    path.write_text(json.dumps({"mcpServers": {"docs": started.marking(mark)}}))
    return path


def test_a_tool_server_that_is_allowed_is_called(home: Path, project: Path, mark: Path) -> None:
    config = mcp_file(home / "servers.json", mark)
    with fake_chat(started.CALL, DONE) as chat:
        more = ("--mcp-config", str(config))
        status, shown = in_terminal(home, arguments(chat, project, *more), "oxsoo")
    assert results(chat) == ["hello"]
    assert (status, mark.exists()) == (0, True)
    assert "A file names it that was given on the command line (--mcp-config).\n" in shown
    assert "Allow it? [o]nce, [a]lways, [d]eny: once\n" in shown
    assert "[a]lways, [d]eny: ?\nAllow it? [o]nce, [a]lways, [d]eny: ?\n" in shown
    assert '{"text": "hello"} ?\nAllow it? [o]nce, for this [s]ession, [a]lways, [d]eny' in shown


def test_a_tool_server_that_is_refused_is_not_started(
    home: Path, project: Path, mark: Path
) -> None:
    mcp_file(project / ".mcp.json", mark)
    with fake_chat(DONE) as chat:
        _, shown = in_terminal(home, arguments(chat, project), "d")
    assert "The file .mcp.json names it, which came with this workspace.\n" in shown
    assert "The tool server docs is not used: the user did not allow it" in shown
    assert started.offered(chat) == []
    assert not mark.exists()


def test_where_nobody_can_answer_no_tool_server_is_started(
    cli: Cli, project: Path, mark: Path
) -> None:
    """Nor does `--yes` answer for it."""
    mcp_file(project / ".mcp.json", mark)
    with fake_chat(DONE) as chat:
        done = cli(*arguments(chat, project, "--yes"))
    assert "it has to be approved first, and nobody can be asked" in done.stderr
    assert (done.returncode, mark.exists()) == (0, False)


def test_a_file_of_tool_servers_that_is_none_is_named(cli: Cli, project: Path) -> None:
    with fake_chat() as chat:
        done = cli(*arguments(chat, project, "--mcp-config", "none.json"))
    assert done.returncode == 2
    assert done.stderr == (
        "composer-lsp: --mcp-config: none.json cannot be read: No such file or directory\n"
    )
