"""The agent as the user's settings have it, the same for every host."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from composer_lsp.agent.agent import Agent
from composer_lsp.agent.command_rules import Permissions
from composer_lsp.agent.commands import Rule
from composer_lsp.agent.mcp.approval import ServerApprover
from composer_lsp.agent.mcp.configuration import Named, of_settings
from composer_lsp.agent.mcp.servers import tool_servers
from composer_lsp.agent.model import ChatModel
from composer_lsp.agent.run_commands import command_settings
from composer_lsp.agent.transcript import transcripts_in
from composer_lsp.agent.workspace.workspace import CodeIndex, Workspace
from composer_lsp.config import Settings


def configured_agent(
    settings: Settings,
    state: Path,
    *,
    workspace: Workspace,
    model: ChatModel,
    index: CodeIndex | None,
    ask_user: Callable[[str], Awaitable[bool]],
    permissions: Permissions,
    server_approver: ServerApprover | None,
    more_rules: Sequence[Rule] = (),
    more_servers: Sequence[Named] = (),
) -> Agent:
    """`state`: the user's state folder. `permissions`: for commands. `server_approver`: asks about
    tool servers; None: nobody can. `more_rules`, `more_servers`: besides those of the settings.

    Raises: RuleError for a rule of the settings that is none.
    """
    named = [of_settings(settings.agent.mcp_servers), *more_servers]
    roots = [Path(root) for root in workspace.paths.roots]
    return Agent(
        workspace=workspace,
        model=model,
        transcripts=transcripts_in(state),
        index=index,
        ask_user=ask_user,
        commands=command_settings(settings, permissions, more_rules),
        guidance=settings.agent.guidance,
        tool_servers=lambda emit: tool_servers(named, roots, state, server_approver, emit),
    )
