"""A workspace with runs on it, a user who answers, and servers to start."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from composer_lsp.agent.commands.approval import Answer
from composer_lsp.agent.events import Event, NoticeEvent
from composer_lsp.agent.mcp.approval import Grants, ServerApprovals, ServerQuestion
from composer_lsp.agent.mcp.configuration import configured_servers, of_settings
from composer_lsp.agent.mcp.connection import Limits
from composer_lsp.agent.mcp.servers import ToolServers
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.tool import Tool

HERE = Path(__file__).parent


@dataclass
class Asked:
    """Implements `ServerApprover`: answers as it is told for each subject."""

    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    questions: list[ServerQuestion] = field(default_factory=list[ServerQuestion])

    meanwhile: Callable[[], Awaitable[None]] | None = None
    """What happens, once, while the next question is open."""

    async def approve_server(self, question: ServerQuestion) -> Answer:
        self.questions.append(question)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return self.answers.get(question.subject, "once")

    @property
    def subjects(self) -> list[str]:
        return [question.subject for question in self.questions]


@dataclass
class Bench:
    """Runs on one workspace, one after the other, as the user's settings name servers."""

    root: Path
    context: ToolContext
    grants: Path
    asked: Asked = field(default_factory=Asked)
    events: list[Event] = field(default_factory=list[Event])
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin", "HOME": "/h"})
    limits: Limits = field(default_factory=Limits)
    _offered: dict[ToolServers, Sequence[Tool]] = field(
        default_factory=dict[ToolServers, Sequence[Tool]]
    )

    def servers(
        self, settings: Mapping[str, Any] | None = None, *, can_ask: bool = True
    ) -> ToolServers:
        return ToolServers(
            configured_servers([of_settings(settings)], [self.root]),
            [self.root],
            ServerApprovals(Grants(self.grants), self.asked if can_ask else None),
            self.events.append,
            environ=self.environ,
            limits=self.limits,
        )

    async def call(self, servers: ToolServers, name: str, **arguments: Any) -> str:
        """Start them unless they run, and call one tool."""
        if servers not in self._offered:
            self._offered[servers] = await servers.tools()
        tool = next(tool for tool in self._offered[servers] if tool.name == name)
        return await tool.call(self.context, arguments)

    @property
    def notices(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, NoticeEvent))


def sdk(*arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(HERE / "sdk_server.py"), *arguments]}


def raw(fault: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(HERE / "raw_server.py"), fault]}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)
