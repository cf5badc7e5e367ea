"""What does the work of a window's runs: the agent, or one question about a selection."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from composer_inference.environment import state_dir
from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.command_rules import Permissions, RulesFile
from composer_lsp.agent.commands import RuleError
from composer_lsp.agent.configured import configured_agent
from composer_lsp.agent.events import Event
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.selection import SelectionEditor
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import transcripts_in
from composer_lsp.engine.chat import ConfiguredChatModel
from composer_lsp.engine.launcher import Launcher
from composer_lsp.server.agent.approver import EditorApprover
from composer_lsp.server.agent.going_on import GoingOn
from composer_lsp.server.agent.host import AgentHost
from composer_lsp.server.agent.window_run import Run, RunError
from composer_lsp.server.agent.workspace import EditorWorkspace


class Worker(Protocol):
    def context(self) -> ToolContext: ...

    def run(
        self,
        request: Request,
        emit: Callable[[Event], None],
        *,
        model_name: str,
        context: ToolContext,
        id: str,
    ) -> Coroutine[Any, Any, Finished]: ...


class WindowAgent:
    """Its runs share the model, and what the user lets them do."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        launcher = Launcher(lambda: host.settings.engine)
        self.model = ConfiguredChatModel(launcher, lambda: host.settings.agent)
        self._approver = EditorApprover(host)
        self._permissions: dict[str, Permissions] = {}
        """By the workspace's first folder."""

    def worker(
        self, workspace: EditorWorkspace, *, rewrites: bool, earlier: Run | None = None
    ) -> Worker:
        """For one run. `rewrites`: of a selection; else `earlier` is the run that it goes on from. Raises:
        RunError, TranscriptError."""
        if rewrites:
            return self._rewriter(workspace)
        agent = self._agent(workspace)
        return agent if earlier is None else self._going_on(agent, earlier, workspace)

    def _agent(self, workspace: EditorWorkspace) -> Agent:
        try:
            return configured_agent(
                self._host.settings,
                state_dir(),
                workspace=workspace,
                model=self.model,
                index=self._host.code_index,
                ask_user=self._host.confirm,
                permissions=self._permissions_of(workspace.paths.roots[0]),
                server_approver=self._approver if self._host.can_ask else None,
            )
        except RuleError as error:
            raise RunError(f"the setting agent.commandRules: {error}") from error

    def _going_on(self, agent: Agent, earlier: Run, workspace: EditorWorkspace) -> Worker:
        transcript = earlier.transcript()
        if transcript is None:
            raise RunError(f"the run {earlier.id} had not begun, for lack of a model; ask again")
        return GoingOn(
            agent=agent,
            earlier=earlier,
            transcript=transcript,
            workspace=workspace,
            pending_changed=self._host.pending_changed,
        )

    def _permissions_of(self, root: str) -> Permissions:
        """The user's answers hold for the window's commands in the same workspace."""
        if root not in self._permissions:
            file = RulesFile.of(state_dir(), Path(root))
            self._permissions[root] = Permissions(file, self._approver)
        return self._permissions[root]

    def _rewriter(self, workspace: EditorWorkspace) -> SelectionEditor:
        folder = transcripts_in(state_dir())
        return SelectionEditor(workspace=workspace, model=self.model, transcripts=folder)
