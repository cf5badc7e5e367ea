"""Running without a sandbox: output, limits, and an end that leaves nothing behind."""

import asyncio
import contextlib
import os
import sys
import tracemalloc
from pathlib import Path

import psutil
import pytest

from composer_lsp.agent.commands import CommandResult, Limits, SandboxError
from composer_lsp.agent.commands.run import OnOutput, RunningCommand, run_command
from composer_lsp.agent.commands.shell import Invocation, plain_invocation
from tests.composer_lsp.agent.commands.conftest import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def plain(line: str, cwd: Path, limits: Limits | None = None) -> Invocation:
    return plain_invocation(line, cwd, {"PATH": os.environ["PATH"]}, limits)


async def run(
    line: str,
    cwd: Path,
    *,
    timeout_s: float = LIMIT_S,
    on_output: OnOutput | None = None,
    limits: Limits | None = None,
    grace_s: float = LIMIT_S,
) -> CommandResult:
    return await run_command(
        plain(line, cwd, limits), timeout_s=timeout_s, on_output=on_output, grace_s=grace_s
    )


def written_pid(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else None


async def pid_in(file: Path) -> int:
    """The number that a command writes to a file."""
    async with asyncio.timeout(LIMIT_S):
        while (pid := written_pid(file)) is None:
            await asyncio.sleep(0.01)
    return pid


def is_running(pid: int) -> bool:
    """A process that has ended may wait for somebody to ask how."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_output_and_status_are_told(tmp_path: Path) -> None:
    result = await run("echo out; echo err >&2; exit 3", tmp_path)

    assert (result.output, result.exit_code, result.ended) == ("out\nerr\n", 3, "exited")


async def test_a_signal_is_told(tmp_path: Path) -> None:
    assert (await run("kill -TERM $$", tmp_path)).signal == "SIGTERM"
    assert (await run("sh -c 'kill -KILL $$'; exit $?", tmp_path)).signal == "SIGKILL"


async def test_a_command_that_reads_its_input_finds_it_at_its_end(tmp_path: Path) -> None:
    result = await run("read x; cat; sleep 0.1; echo done", tmp_path)

    assert result.output == "done\n"


async def test_there_is_no_terminal(tmp_path: Path) -> None:
    result = await run("test -t 0 || test -t 1 || (: < /dev/tty) || echo none", tmp_path)

    assert result.output.endswith("none\n")


async def test_output_comes_as_it_is_written(tmp_path: Path) -> None:
    heard = asyncio.Event()
    task = asyncio.create_task(
        run("echo first; sleep 1000", tmp_path, on_output=lambda text: heard.set())
    )
    async with asyncio.timeout(LIMIT_S):
        await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_binary_output_does_no_harm(tmp_path: Path) -> None:
    result = await run(r"printf 'a\0\377\033[31mb\033]0;title\007c\r\n'", tmp_path)

    assert result.output == "a\ufffdbc\n"


async def test_long_output_keeps_its_two_ends_in_bounded_memory(tmp_path: Path) -> None:
    heard: list[str] = []
    tracemalloc.start()
    result = await run(
        "echo first; head -c 20000000 /dev/zero | tr '\\0' 'x' | fold; echo last",
        tmp_path,
        on_output=heard.append,
    )
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert result.output.startswith("first\n")
    assert result.output.endswith("last\n")
    assert "bytes left out here" in result.output
    assert result.num_output_bytes > 20_000_000
    assert len(result.output) < 60_000
    assert sum(map(len, heard)) < 60_000
    assert peak_bytes < 4_000_000


@pytest.mark.soak
async def test_a_gigabyte_of_output_stays_bounded(tmp_path: Path) -> None:
    tracemalloc.start()
    result = await run("head -c 1000000000 /dev/zero", tmp_path, timeout_s=600)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert result.num_output_bytes == 1_000_000_000
    assert peak_bytes < 4_000_000


async def test_yes_ends_at_the_time_out(tmp_path: Path) -> None:
    result = await run("yes", tmp_path, timeout_s=1)

    assert result.ended == "timed_out"
    assert result.output.startswith("y\ny\n")
    assert len(result.output) < 60_000


async def test_a_time_out_asks_first(tmp_path: Path) -> None:
    result = await run("trap 'echo bye; exit 5' TERM; sleep 1000 & wait", tmp_path, timeout_s=1)

    assert (result.output, result.exit_code, result.ended) == ("bye\n", 5, "timed_out")


async def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    result = await run(
        "trap '' TERM; while :; do sleep 0.1; done", tmp_path, timeout_s=0.5, grace_s=0.1
    )

    assert (result.signal, result.ended) == ("SIGKILL", "timed_out")


DAEMON = """setsid sh -c 'sh -c "echo \\$\\$ > pid; exec sleep 1000" &' &"""


@pytest.mark.parametrize("end", ["exit 0", "sleep 1000"])
async def test_a_daemon_ends_with_the_command(end: str, tmp_path: Path) -> None:
    task = asyncio.create_task(
        run(f"{DAEMON} while ! test -s pid; do sleep 0.01; done; {end}", tmp_path, timeout_s=3)
    )
    pid = await pid_in(tmp_path / "pid")
    await task

    assert not is_running(pid)


async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    result = await run("sleep 1000 & echo $!", tmp_path)

    assert not is_running(int(result.output))


async def test_cancelling_ends_the_command_first(tmp_path: Path) -> None:
    task = asyncio.create_task(run("echo $$ > pid; sleep 1000", tmp_path))
    pid = await pid_in(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not is_running(pid)


async def test_a_command_with_too_many_processes_ends(tmp_path: Path) -> None:
    line = "for i in $(seq 200); do sleep 1000 & done; wait"
    result = await run(line, tmp_path, limits=Limits(max_processes=20))

    assert result.ended == "too_many_processes"


async def test_a_file_stays_below_the_limit(tmp_path: Path) -> None:
    await run("head -c 100000 /dev/zero > big", tmp_path, limits=Limits(max_file_bytes=50_000))

    assert (tmp_path / "big").stat().st_size <= 50_000


async def test_no_core_is_dumped(tmp_path: Path) -> None:
    assert (await run("ulimit -Hc", tmp_path)).output == "0\n"


async def test_the_users_start_up_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("echo read")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    result = await run_command(plain_invocation("ls", tmp_path, environ), timeout_s=LIMIT_S)

    assert result.output == ""


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    invocation = Invocation(argv=("/no/such",), environ={}, cwd=tmp_path)
    with pytest.raises(SandboxError, match="cannot be started"):
        await run_command(invocation, timeout_s=LIMIT_S)


async def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    running = await RunningCommand.start(plain("sleep 1000", tmp_path))
    with contextlib.suppress(TimeoutError):
        await asyncio.gather(running.stop(), running.stop())

    assert running.result().ended == "stopped"
