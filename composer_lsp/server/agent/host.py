"""The window, as far as the agent's runs go."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import CodeIndex
from composer_lsp.config import Settings
from composer_lsp.server.agent.diagnostics import Diagnostics
from composer_lsp.server.agent.window_run import RunError
from composer_lsp.server.agent.workspace import EditingClient, EditorWorkspace
from composer_lsp.server.documents import DocumentStore


class AgentHost(Protocol):
    """What runs need of the window."""

    @property
    def settings(self) -> Settings: ...

    def roots(self) -> Sequence[str]:
        """The workspace folders' paths on this machine."""
        ...

    def documents(self) -> DocumentStore: ...

    @property
    def diagnostics(self) -> Diagnostics: ...

    @property
    def code_index(self) -> CodeIndex | None:
        """None: it is off."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether the editor can show a question."""
        ...

    async def confirm(self, question: str) -> bool:
        """No where the user does not say yes."""
        ...

    async def ask(self, question: str, *answers: str) -> str | None:
        """The answer that was chosen; None: none was, the editor cannot ask, or it failed."""
        ...

    def log(self, message: str) -> None:
        """Where the user can read it."""
        ...

    def thinking(self) -> AbstractContextManager[None]:
        """While inside, the status says that something is being worked on."""
        ...

    def pending_changed(self) -> None:
        """What is pending is not what it was."""
        ...


def open_workspace(host: AgentHost, client: EditingClient) -> EditorWorkspace:
    """The window's folders as they are now. Raises: RunError where there is none."""
    roots = [Path(root) for root in host.roots()]
    if not roots:
        raise RunError("this window has no folder open; the agent works on folders")
    paths = Paths(roots, host.settings.index.include_secret)
    return EditorWorkspace(paths, host.documents, client, host.diagnostics)
