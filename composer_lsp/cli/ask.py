"""`composer-lsp ask|edit|fix|test "…"`: the agent in a terminal, on a folder."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from composer_lsp.cli.agent_output import JsonOutput, Output, TerminalOutput
from composer_lsp.cli.terminal import can_ask, confirmed, stop_at_signals
from composer_lsp.config import AgentSettings, EngineSettings, Guidance, IndexSettings, Settings

if TYPE_CHECKING:
    from composer_lsp.agent.agent import Agent
    from composer_lsp.agent.commands import Rule
    from composer_lsp.agent.workspace.workspace import CodeIndex
    from composer_lsp.cli.agent_run import Beginning
    from composer_lsp.engine.chat import ConfiguredChatModel

_FAILED = 2
_INTERRUPTED = 130


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
    add_model_arguments(parser)
    parser.add_argument(
        "--guidance",
        choices=get_args(Guidance),
        default=defaults.guidance,
        help="lead the model by the hand, as small ones have to be (default: by its name)",
    )
    parser.epilog = (
        "Exit status: 0 when the run finished and its changes, if any, were applied; 1 when it did "
        "not finish; 2 when it failed; 3 when its changes were not applied; 130 when it was stopped, by "
        "Ctrl-C or a signal. What it did is kept: `composer-lsp transcript resume last` goes on with it."
    )
    parser.set_defaults(carry_out=False)


def add_carry_out(parser: argparse.ArgumentParser) -> None:
    """For a run that plans."""
    parser.add_argument(
        "--carry-out",
        action="store_true",
        help="carry the plan out without asking; its changes are asked about all the same",
    )


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Who answers, and how code is found."""
    defaults = AgentSettings()
    parser.add_argument("--no-index", action="store_true", help="find code by text and names alone")
    parser.add_argument("--model", default=defaults.model, help="model name (default: auto)")
    parser.add_argument(
        "--url", default="", help="an OpenAI-compatible server in place of the local engine"
    )
    parser.add_argument(
        "--api-key-env", default="", help="environment variable that holds the key for --url"
    )


def run(args: argparse.Namespace) -> int:
    from composer_lsp.agent.prompt.system import Request
    from composer_lsp.cli.agent_run import of_request

    text = " ".join(args.request)
    if not text.strip():
        _output(args).error("the request is empty; say what you want")
        return _FAILED
    return run_in_terminal(args, of_request(Request(mode=args.command, text=text)))


def run_in_terminal(args: argparse.Namespace, beginning: "Beginning") -> int:
    """The exit code of a run on `args.root`."""
    from composer_inference.endpoint import EndpointError
    from composer_lsp.agent.commands import RuleError
    from composer_lsp.agent.mcp.configuration import ServerError, of_file
    from composer_lsp.agent.resume import ResumeError
    from composer_lsp.agent.transcript import TranscriptError
    from composer_lsp.agent.workspace.workspace import WorkspaceError
    from composer_lsp.engine.errors import EngineError

    output = _output(args)
    if not args.root.is_dir():
        output.error(f"{args.root} is no folder")
        return _FAILED
    try:
        args.allow = [_allowing(pattern) for pattern in args.allow]
        args.mcp_config = [] if args.mcp_config is None else [of_file(args.mcp_config)]
        return asyncio.run(_run(args, beginning, output))
    except asyncio.CancelledError:
        return _INTERRUPTED
    except RuleError as error:
        output.error(f"--allow: {error}")
        return _FAILED
    except ServerError as error:
        output.error(f"--mcp-config: {error}")
        return _FAILED
    except BrokenPipeError:
        raise
    except (
        EngineError,
        EndpointError,
        WorkspaceError,
        ResumeError,
        TranscriptError,
        OSError,
    ) as error:
        output.error(str(error))
        return _FAILED


def _allowing(pattern: str) -> "Rule":
    """Raises: RuleError."""
    from composer_lsp.agent.commands import Rule, RuleError
    from composer_lsp.agent.commands.rules import Decision

    decision, _, rest = pattern.strip().partition(" ")
    if rest and decision in get_args(Decision):
        way_out = (
            f"write --allow {shlex.quote(rest.strip())}"
            if decision == "allow"
            else "other rules belong into the setting composer.agent.commandRules"
        )
        raise RuleError(f"{pattern!r} begins with a decision, which is always allow; {way_out}")
    return Rule("allow", pattern)


def _output(args: argparse.Namespace) -> Output:
    return JsonOutput() if args.json else TerminalOutput()


async def _run(args: argparse.Namespace, beginning: "Beginning", output: Output) -> int:
    from composer_lsp.cli.agent_run import TerminalRun

    stop_at_signals()
    args.no_index = args.no_index or not beginning.asks_model
    async with _model(args) as model, _index(args, output) as index:
        run = TerminalRun(
            agent=_agent(args, model, index),
            model=await model.name() if beginning.asks_model else "",
            output=output,
            applies=args.yes,
            carries_out=args.carry_out,
        )
        return await run.run(beginning)


def _agent(
    args: argparse.Namespace,
    model: "ConfiguredChatModel",
    index: "CodeIndex | None",
) -> "Agent":
    from composer_inference.environment import state_dir
    from composer_lsp.agent.command_rules import Permissions, RulesFile
    from composer_lsp.agent.configured import configured_agent
    from composer_lsp.agent.workspace.directory import DirectoryWorkspace
    from composer_lsp.agent.workspace.paths import Paths
    from composer_lsp.cli.approver import TerminalApprover

    root = args.root.resolve()
    approver = TerminalApprover() if can_ask() else None
    return configured_agent(
        Settings(agent=_settings(args)),
        state_dir(),
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        index=index,
        ask_user=confirmed,
        permissions=Permissions(RulesFile.of(state_dir(), root), approver),
        server_approver=approver,
        more_rules=args.allow,
        more_servers=args.mcp_config,
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
async def _index(
    args: argparse.Namespace, output: Output
) -> "AsyncGenerator[CodeIndex | None, None]":
    from composer_lsp.agent.events import NoticeEvent
    from composer_lsp.index.service import IndexService

    if args.no_index:
        yield None
        return
    service = IndexService(_Folder(args.root))
    try:
        try:
            await service.refresh()
        except OSError as error:
            why = f"there is no index ({error}); code is found by text and names alone"
            output.event(NoticeEvent(why))
            yield None
        else:
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
