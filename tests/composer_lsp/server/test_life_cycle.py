"""The server leaves when its client does."""

import signal
import subprocess
import sys
from contextlib import suppress

import pytest

URI = "file:///w/a.py"


async def test_shutdown_then_exit(client):
    assert await client.shut_down() == 0


async def test_exit_without_shutdown(client):
    client.notify("exit")
    assert await client.exit_code() == 1


async def test_exit_before_initialize(start_fake):
    async with start_fake() as client:
        client.notify("exit")
        assert await client.exit_code() == 1


@pytest.mark.parametrize("line", ["quick", "slow", "block"])
async def test_the_end_of_stdin_in_the_middle_of_anything(client, events, line):
    client.open(URI, line)
    client.begin_inline_completion(URI, {"line": 0, "character": 9})
    await events.wait_for(f"complete automatic python {line}")
    client.process.stdin.close()
    assert await client.exit_code() == 1


async def test_the_end_of_stdin_before_initialize(start_fake):
    async with start_fake() as client:
        client.process.stdin.close()
        assert await client.exit_code() == 1


async def test_the_end_of_stdin_after_shutdown(client):
    await client.request("shutdown")
    client.process.stdin.close()
    assert await client.exit_code() == 0


@pytest.mark.parametrize("line", ["quick", "slow", "block"])
async def test_the_death_of_the_client_process_alone(start_fake, events, line):
    """Another process may hold the pipes open, so that stdin does not end."""
    command = [sys.executable, "-c", "input()"]
    # Not asyncio's: it would reap the process, and a zombie has to count as dead too.
    with subprocess.Popen(command, stdin=subprocess.PIPE) as editor:  # noqa: ASYNC220
        async with start_fake() as client:
            await client.initialize(process_id=editor.pid)
            client.open(URI, line)
            client.begin_inline_completion(URI, {"line": 0, "character": 9})
            await events.wait_for(f"complete automatic python {line}")
            editor.send_signal(signal.SIGKILL)
            assert await client.exit_code() == 1


async def test_a_process_id_of_another_machine_does_no_harm(start_fake):
    async with start_fake() as client:
        await client.initialize(process_id=2**22 + 1)
        assert await client.command("composer.status")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_the_server(client, number):
    client.process.send_signal(number)
    assert await client.exit_code() == 128 + number


async def test_closing_reaches_the_service(client, events):
    client.open(URI, "slow")
    client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow")
    client.process.stdin.close()
    await client.exit_code()
    assert {"cancelled", "close"} <= set(events.all())


async def test_a_client_that_reads_no_more(client, events):
    """The server's next message meets a closed pipe."""
    transport = client.process._transport.get_pipe_transport(1)
    transport.close()
    client.open(URI, "quick")
    code = None
    for _ in range(12):  # One message may come before the pipe is closed at this end.
        client.begin_inline_completion(URI, {"line": 0, "character": 5})
        with suppress(TimeoutError):
            code = await client.exit_code(10)
            break
    assert code == 1
    assert b"Traceback" not in client.stderr
