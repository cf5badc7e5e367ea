"""`composer-lsp ask|plan|edit|fix|test "…"`: the agent in a terminal, on a folder."""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from composer_lsp.cli.agent_output import JsonOutput, Output, TerminalOutput
from composer_lsp.cli.terminal import can_ask, confirmed
from composer_lsp.config import AgentSettings, EngineSettings, Guidance, IndexSettings, Settings

if TYPE_CHECKING:
    from composer_lsp.agent.agent import Agent, Finished
    from composer_lsp.agent.events import Event
    from composer_lsp.agent.tools.context import ToolContext
    from composer_lsp.agent.workspace.workspace import CodeIndex
    from composer_lsp.engine.chat import ConfiguredChatModel

    Start = Callable[[Agent, ToolContext, Callable[[Event], None], str], Awaitable[Finished]]
    """Begins a run, or goes on with one; the text is the model's name."""

_NOT_FINISHED = 1
_FAILED = 2
_NOT_APPLIED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("request", nargs="+", help="what you want, in words")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder (default: this one)")
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """How a run goes, wherever it begins."""
    defaults = AgentSettings()
    parser.add_argument("--json", action="store_true", help="print events, one JSON object a line")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="apply the changes without asking; commands are asked about all the same",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RULE",
        help="let commands run that match, such as 'pytest *' (may be repeated)",
    )
    parser.add_argument(
        "--mcp-config",
        type=Path,
        metavar="FILE",
        help="tool servers, under `mcpServers` as other tools have it, besides the folder's .mcp.json",
    )
    parser.add_argument("--no-index", action="store_true", help="find code by text and names alone")
    parser.add_argument("--model", default=defaults.model, help="model name (default: auto)")
    parser.add_argument(
        "--url", default="", help="an OpenAI-compatible server in place of the local engine"
    )
    parser.add_argument(
        "--api-key-env", default="", help="environment variable that holds the key for --url"
    )
    parser.add_argument(
        "--guidance",
        choices=get_args(Guidance),
        default=defaults.guidance,
        help="lead the model by the hand, as small ones have to be (default: by its name)",
    )
    parser.epilog = (
        "Exit status: 0 when the run finished and its changes, if any, were applied; 1 when it did "
        "not finish; 2 when it failed; 3 when its changes were not applied."
    )


def run(args: argparse.Namespace) -> int:
    from composer_lsp.agent.prompt.system import Request

    request = Request(mode=args.command, text=" ".join(args.request))

    async def start(
        agent: "Agent", context: "ToolContext", emit: "Callable[[Event], None]", model: str
    ) -> "Finished":
        return await agent.run(request, emit, model_name=model, context=context)

    return run_in_terminal(args, request.text, start)


def run_in_terminal(args: argparse.Namespace, label: str, start: "Start") -> int:
    """The exit code of a run on `args.root`, whose changes are applied under `label`."""
    from composer_inference.endpoint import EndpointError
    from composer_lsp.agent.commands import Rule, RuleError
    from composer_lsp.agent.mcp.configuration import ServerError, of_file
    from composer_lsp.agent.resume import ResumeError
    from composer_lsp.agent.transcript import TranscriptError
    from composer_lsp.agent.workspace.workspace import WorkspaceError
    from composer_lsp.engine.errors import EngineError

    output = JsonOutput() if args.json else TerminalOutput()
    if not args.root.is_dir():
        output.error(f"{args.root} is no folder")
        return _FAILED
    try:
        args.allow = [Rule("allow", pattern) for pattern in args.allow]
        args.mcp_config = [] if args.mcp_config is None else [of_file(args.mcp_config)]
        return asyncio.run(_run(args, label, start, output))
    except RuleError as error:
        output.error(f"--allow: {error}")
        return _FAILED
    except ServerError as error:
        output.error(f"--mcp-config: {error}")
        return _FAILED
    except (EngineError, EndpointError, WorkspaceError, ResumeError, TranscriptError) as error:
        output.error(str(error))
        return _FAILED


async def _run(args: argparse.Namespace, label: str, start: "Start", output: Output) -> int:
    async with _model(args) as model, _index(args) as index:
        agent = _agent(args, model, index)
        name = await model.name()
        context = agent.context()
        context.apply_pending = lambda: _apply_pending(agent, context, output, label)
        finished = await start(agent, context, output.event, name)
        output.outcome(finished)
        is_applied = await _apply(agent, finished, output, is_agreed=args.yes)
    match finished.outcome.status:
        case "finished":
            return 0 if is_applied else _NOT_APPLIED
        case "failed":
            return _FAILED
        case _:
            return _NOT_FINISHED


async def _apply(agent: "Agent", finished: "Finished", output: Output, *, is_agreed: bool) -> bool:
    """Whether nothing is left to apply. Raises: WorkspaceError."""
    changes = list(finished.context.changes.changes())
    if not changes:
        return True
    output.changes(changes)
    if not is_agreed and not await confirmed(f"Apply the changes to {len(changes)} files?"):
        if can_ask():
            finished.transcript.add_verdicts(changes, is_accepted=False)
        return False
    await agent.workspace.apply(changes, label=finished.transcript.header.request)
    finished.transcript.add_verdicts(changes, is_accepted=True)
    output.applied(changes)
    return True


async def _apply_pending(
    agent: "Agent", context: "ToolContext", output: Output, label: str
) -> None:
    """Before a command that sees the disk alone. Raises: WorkspaceError."""
    changes = list(context.changes.changes())
    output.changes(changes)
    await agent.workspace.apply(changes, label=label)
    for change in changes:
        context.changes.reject(change.path)
    output.applied(changes)


def _agent(
    args: argparse.Namespace,
    model: "ConfiguredChatModel",
    index: "CodeIndex | None",
) -> "Agent":
    from composer_inference.environment import state_dir
    from composer_lsp.agent.agent import Agent
    from composer_lsp.agent.command_rules import Permissions, RulesFile
    from composer_lsp.agent.mcp.servers import tool_servers
    from composer_lsp.agent.run_commands import command_settings
    from composer_lsp.agent.workspace.directory import DirectoryWorkspace
    from composer_lsp.agent.workspace.paths import Paths
    from composer_lsp.cli.approver import TerminalApprover

    root = args.root.resolve()
    approver = TerminalApprover() if can_ask() else None
    permissions = Permissions(RulesFile.of(state_dir(), root), approver)
    settings = _settings(args)
    return Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=state_dir() / "transcripts",
        index=index,
        ask_user=confirmed,
        commands=command_settings(Settings(agent=settings), permissions, args.allow),
        guidance=settings.guidance,
        tool_servers=lambda emit: tool_servers(
            args.mcp_config, [root], state_dir(), approver, emit
        ),
    )


def _settings(args: argparse.Namespace) -> AgentSettings:
    return AgentSettings(
        model=args.model, url=args.url, api_key_env=args.api_key_env, guidance=args.guidance
    )


@asynccontextmanager
async def _model(args: argparse.Namespace) -> "AsyncGenerator[ConfiguredChatModel, None]":
    from composer_lsp.engine.chat import ConfiguredChatModel
    from composer_lsp.engine.launcher import Launcher

    settings = _settings(args)
    model = ConfiguredChatModel(Launcher(lambda: EngineSettings()), lambda: settings)
    try:
        yield model
    finally:
        await model.aclose()


@asynccontextmanager
async def _index(args: argparse.Namespace) -> "AsyncGenerator[CodeIndex | None, None]":
    from composer_lsp.index.service import IndexService

    if args.no_index:
        yield None
        return
    service = IndexService(_Folder(args.root))
    try:
        await service.refresh()
        yield service
    finally:
        await service.close()


class _Folder:
    """What the index needs of a window."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.resolve())
        self.index_settings = IndexSettings()
        self.engine_settings = EngineSettings()

    def index_roots(self) -> Sequence[str]:
        return [self._root]

    def on_index_progress(self, root: str, done: int, left: int) -> None: ...

    def on_index_message(self, text: str) -> None:
        print(text, file=sys.stderr)
