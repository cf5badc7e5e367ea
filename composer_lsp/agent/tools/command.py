"""Tools that run commands. What a command changes is staged, as edits are, where the sandbox can do
that; else it is on the disk."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

from composer_lsp.agent.commands import (
    Access,
    BackgroundCommand,
    BackgroundError,
    CommandResult,
    CommandRunner,
    RefusedError,
    SandboxError,
)
from composer_lsp.agent.commands.output import Output
from composer_lsp.agent.ledger import CommandRun
from composer_lsp.agent.run_commands import RunCommands, Started
from composer_lsp.agent.testing_output import ran_no_test
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.git_secrets import secret_that_git_may_show
from composer_lsp.agent.tools.staging import (
    ask_to_take,
    changed_on_disk,
    files_for_command,
    notices,
    stamps,
    take_changes,
)
from composer_lsp.agent.tools.tool import ToolError, tool

MAX_OUTPUT_BYTES = 16_000
"""Of one result: some 5,000 tokens."""
MAX_TIMEOUT_S = 3600
_KEPT = "What it changes counts once you see its end or stop it, and is lost if the run ends first."
_MAX_SAID_CHARS = 200_000
"""Of a command in the background, in which it is looked for tests that ran."""


@tool(only_reads=False)
async def run_command(
    context: ToolContext,
    command: Annotated[str, "a shell line"],
    cwd: Annotated[str, "a folder of the workspace"] = ".",
    timeout_s: Annotated[int | None, "seconds, after which it is ended"] = None,
    background: Annotated[
        bool, "for a server: go on while it runs; read_output reads it, stop_command ends it"
    ] = False,
    network: Annotated[bool, "it needs the network; the user is asked"] = False,
) -> str:
    """Run a command, such as the tests or a linter. There is no terminal and no input. It sees your
    edits. To read, search and edit files use the other tools."""
    _check(command, timeout_s)
    commands = _commands(context)
    folder = await _folder(context, cwd)
    await _ask_about_secrets(context, command, folder)
    runner = await commands.runner()
    staged, notes = await files_for_command(context, runner)
    wanted = Access(network=network)
    try:
        if background:
            before = await stamps(context, runner)
            id = await runner.start(command, folder, staged=staged, wanted=wanted)
            commands.started[id] = Started(
                line=command,
                num_edits=context.ledger.num_edits,
                staged=staged,
                stamps=before,
            )
            told = f"Started as {id}: read_output reads it, and it ends with the run. {_KEPT}"
            return "\n".join([told, *notes])
        before = await stamps(context, runner)
        result = await runner.run(
            command,
            folder,
            timeout_s=timeout_s or commands.timeout_s,
            staged=staged,
            wanted=wanted,
            on_output=commands.watcher(),
            agree=partial(ask_to_take, context),
        )
    except (RefusedError, BackgroundError, SandboxError) as error:
        raise ToolError(_refusal(error, runner)) from error
    for notice in notices(context, result):
        commands.notice(notice)
    notes += _count(context, command, result, result.output)
    notes += await take_changes(context, result)
    notes += await changed_on_disk(context, before)
    return "\n".join([_headline(result), _output(result.output), *notes])


@tool(only_reads=False)
async def read_output(context: ToolContext, id: Annotated[str, "as run_command gave it"]) -> str:
    """What a command in the background has written since it was last read, and whether it runs."""
    background = (await _commands(context).runner()).background
    try:
        text, status = await background.read(id)
    except (BackgroundError, SandboxError) as error:
        raise ToolError(str(error)) from error
    return await _told(context, status, text)


@tool(only_reads=False)
async def stop_command(context: ToolContext, id: Annotated[str, "as run_command gave it"]) -> str:
    """End a command in the background; what it changed counts as yours then."""
    background = (await _commands(context).runner()).background
    try:
        await background.stop(id)
        text, status = await background.read(id)
    except (BackgroundError, SandboxError) as error:
        raise ToolError(str(error)) from error
    return await _told(context, status, text)


def _check(command: str, timeout_s: int | None) -> None:
    """Raises: ToolError."""
    if not command.strip():
        raise ToolError("command is empty")
    if "\0" in command:
        raise ToolError("command holds a NUL character")
    if timeout_s is not None and not 1 <= timeout_s <= MAX_TIMEOUT_S:
        raise ToolError(f"timeout_s is 1 to {MAX_TIMEOUT_S}, not {timeout_s}")


async def _ask_about_secrets(context: ToolContext, command: str, folder: Path) -> None:
    """Raises: ToolError if git could show a secret and the user does not say that it may."""
    secret = await asyncio.to_thread(secret_that_git_may_show, command, folder)
    if secret is None:
        return
    what = f"{secret.what}, which {'is' if secret.is_known else 'may be'} hidden from"
    if not await context.ask_user(f"Git knows {what} the agent. Run `{command}` all the same?"):
        raise ToolError(
            f"not run: git could show {what} you, and the user did not "
            "allow it; name the files that you want: git diff -- FILE"
        )


def _commands(context: ToolContext) -> RunCommands:
    if context.commands is None:
        raise ToolError("no command can be run here")
    return context.commands


def _refusal(error: Exception, runner: CommandRunner) -> str:
    text = str(error)
    if isinstance(error, RefusedError) and runner.why_no_sandbox is not None:
        return f"{text}; there is no sandbox: {runner.why_no_sandbox}"
    return text


async def _folder(context: ToolContext, cwd: str) -> Path:
    """Raises: PathError, ToolError."""
    paths = context.workspace.paths
    if cwd.strip() in ("", ".", "./"):
        return Path(paths.roots[0])
    place = paths.locate(cwd)
    await asyncio.to_thread(paths.check, place, may_be_ignored=True)
    folder = Path(place.absolute)
    is_staged = any(path.startswith(f"{place.path}/") for path in context.changes.paths)
    if not is_staged and not await asyncio.to_thread(folder.is_dir):
        raise ToolError(f"there is no folder {place.path}")
    return folder


async def _told(context: ToolContext, status: BackgroundCommand, text: str) -> str:
    result = status.result
    commands = _commands(context)
    started = commands.started[status.id]
    started.said = (started.said + text)[-_MAX_SAID_CHARS:]
    if result is None:
        return "\n".join(["It runs.", _output(text)])
    notes: list[str] = []
    if not started.is_told:
        started.is_told = True
        if started.num_edits == context.ledger.num_edits:
            notes = _count(context, started.line, result, started.said)
        notes += await _take(context, status.id, started, result)
    return "\n".join([_headline(result), _output(text), *notes])


async def _take(
    context: ToolContext, id: str, started: Started, result: CommandResult
) -> list[str]:
    """What a command in the background changed."""
    commands = _commands(context)
    runner = await commands.runner()
    try:
        result = await runner.taken(id, result, partial(ask_to_take, context))
    except SandboxError as error:
        return [f"[{error}]"]
    for notice in notices(context, result):
        commands.notice(notice)
    notes = await take_changes(context, result, seen=started.staged)
    return notes + await changed_on_disk(context, started.stamps)


def _count(context: ToolContext, line: str, result: CommandResult, said: str) -> list[str]:
    """Before what it changed counts: that comes after what it has shown."""
    exit_code = result.exit_code if result.ended == "exited" else None
    run = CommandRun(line, exit_code, ran_none=ran_no_test(said))
    context.ledger.ran(run)
    if not run.is_test:
        return []
    if not run.tells_of_tests:
        return ["[its exit code is not that of the tests; run them by themselves]"]
    return ["[no test ran, so that nothing is shown to pass]"] if run.ran_none else []


def _headline(result: CommandResult) -> str:
    match result.ended:
        case "exited":
            text = f"Exit code {result.exit_code}"
            text += f" ({result.signal})" if result.signal else ""
        case "signalled":
            text = f"Ended by {result.signal or 'a signal'}"
        case "timed_out":
            text = "Ended because its time was over"
        case "stopped":
            text = "Stopped"
        case "too_many_processes":
            text = "Ended because it started too many processes"
    size = (
        f", {result.num_output_bytes:,} bytes of output"
        if result.num_output_bytes > MAX_OUTPUT_BYTES
        else ""
    )
    return f"{text} after {result.duration_s:.1f} s{size}."


def _output(text: str) -> str:
    """Cut once more: what a person may scroll through is too long for a model."""
    kept = Output(MAX_OUTPUT_BYTES)
    kept.write(text.encode("utf-8", "replace"))
    return kept.text().rstrip() or "(no output)"
