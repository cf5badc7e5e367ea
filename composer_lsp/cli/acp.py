"""`composer-lsp acp`: the agent for editors that speak the Agent Client Protocol."""

import argparse
from typing import TYPE_CHECKING

from composer_lsp.cli.ask import add_model_arguments
from composer_lsp.config import AgentSettings

if TYPE_CHECKING:
    from composer_lsp.agent.prompt.system import Mode

_MODES: tuple["Mode", ...] = ("ask", "plan", "edit", "fix", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        choices=_MODES,
        default="edit",
        help="what new sessions do: ask, plan, edit, fix or test (default: edit)",
    )
    add_model_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from composer_lsp.server.stdio import take_streams

    stdin, stdout = take_streams()

    # The rest may print and log, now that stdout is safe.
    import asyncio

    from composer_inference.environment import log_level
    from composer_lsp.server.logs import set_up_logging

    set_up_logging(log_level())
    asyncio.run(_serve(args, stdin, stdout))
    return 0


async def _serve(args: argparse.Namespace, stdin: int, stdout: int) -> None:
    from composer_inference.environment import state_dir
    from composer_lsp.acp.indexes import Indexes
    from composer_lsp.acp.server import AcpServer, serve
    from composer_lsp.config import Settings
    from composer_lsp.engine.chat import ConfiguredChatModel
    from composer_lsp.engine.launcher import Launcher
    from composer_lsp.server.stdio import end_process_later

    agent = AgentSettings(model=args.model, url=args.url, api_key_env=args.api_key_env)
    settings = Settings(agent=agent)
    model = ConfiguredChatModel(Launcher(lambda: settings.engine), lambda: agent)
    indexes = None if args.no_index else Indexes()
    server = AcpServer(model, indexes, settings, state_dir(), args.mode)
    try:
        await serve(stdin, stdout, server, lambda: end_process_later(1))
    finally:
        await model.aclose()
        if indexes is not None:
            await indexes.close()
