"""What the user is asked by the client: commands, tool servers, changes, plans, yes or no."""

import logging
from collections.abc import Callable, Mapping, Sequence

from acp import helpers, schema

from composer_index.printable import printable
from composer_lsp.acp.client import SessionClient
from composer_lsp.acp.paths import ClientPaths
from composer_lsp.acp.updates import Updates, diffs, shown, text_content
from composer_lsp.agent.commands import Answer, Question
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.mcp.approval import ServerQuestion
from composer_lsp.agent.workspace.workspace import WorkspaceError

logger = logging.getLogger(__name__)

_ONCE = schema.PermissionOption(option_id="once", name="Allow", kind="allow_once")
_SESSION = schema.PermissionOption(
    option_id="session", name="Allow for this session", kind="allow_always"
)
_ALWAYS_HERE = schema.PermissionOption(
    option_id="always",
    name="Always allow in these folders, while it stays the same",
    kind="allow_always",
)
_DENY = schema.PermissionOption(option_id="deny", name="Reject", kind="reject_once")
_CHANGES = (
    schema.PermissionOption(option_id="once", name="Apply", kind="allow_once"),
    schema.PermissionOption(
        option_id="always", name="Apply, and do not ask again in this session", kind="allow_always"
    ),
    _DENY,
)
_PLAN = (
    schema.PermissionOption(option_id="once", name="Carry it out", kind="allow_once"),
    schema.PermissionOption(option_id="deny", name="Not now", kind="reject_once"),
)
_ANSWERS: Mapping[str | None, Answer] = {"once": "once", "session": "session", "always": "always"}


class Questions:
    """Raises: WorkspaceError where the client does not answer."""

    def __init__(self, client: SessionClient, updates: Updates, paths: ClientPaths) -> None:
        self._client = client
        self._updates = updates
        self._paths = paths
        self._applies_unasked = False
        self.current_call: Callable[[], str | None] = lambda: None
        """The id of the tool call that runs and that a command's question is about."""

    async def approve(self, question: Question) -> Answer:
        """As an `Approver`."""
        call = schema.ToolCallUpdate(
            tool_call_id=self.current_call() or self._updates.new_id(),
            title=f"Run {printable(question.command.line)}",
            kind="execute",
            status="pending",
            content=[text_content(_about(question))],
        )
        options = [_ONCE, _SESSION, _DENY]
        if question.rules:
            option = schema.PermissionOption(
                option_id="always", name="Always allow, by a rule of yours", kind="allow_always"
            )
            options.insert(2, option)
        chosen = await self._ask(call, options)
        offered = {option.option_id for option in options}
        return _ANSWERS.get(chosen, "deny") if chosen in offered else "deny"

    async def approve_server(self, question: ServerQuestion) -> Answer:
        """As a `ServerApprover`. No answer is a denial."""
        options = [
            option
            for option in (_ONCE, _SESSION, _ALWAYS_HERE, _DENY)
            if option.option_id in question.choices
        ]
        running = self.current_call() if question.subject == "call" else None
        call = schema.ToolCallUpdate(
            tool_call_id=running or self._updates.new_id(),
            title=shown(question.text.split("\n", 1)[0]),
            kind="other",
            status="pending",
            # Not cut, unlike results: nothing may hide in what is agreed to.
            content=[helpers.tool_content(helpers.text_block(shown(question.text)))],
        )
        if running is None:
            self._begin(call)
        answer: Answer = "deny"
        try:
            chosen = await self._ask(call, options)
            if chosen in question.choices:
                answer = _ANSWERS.get(chosen, "deny")
        except WorkspaceError as error:
            logger.warning("a question about a tool server was not answered: %s", error)
        finally:
            if running is None:
                self.settle(call.tool_call_id, "failed" if answer == "deny" else "completed")
        return answer

    async def confirm(self, question: str) -> bool:
        return await self._yes_or_no(question, "other", (_ONCE, _DENY))

    async def carry_out(self) -> bool:
        """Whether the plan that was just made is to be carried out."""
        return await self._yes_or_no("Carry out this plan?", "switch_mode", _PLAN)

    async def may_change(self, changes: Sequence[FileChange]) -> str | None:
        """Show the changes; the id of the tool call that shows them if they may be made, else
        None."""
        call = self._shown(changes)
        if self._applies_unasked:
            return call.tool_call_id
        try:
            chosen = await self._ask(call, _CHANGES)
        except BaseException:
            self.settle(call.tool_call_id, "failed", "Not answered: nothing was changed.")
            raise
        self._applies_unasked = chosen == "always"
        if chosen in ("once", "always"):
            return call.tool_call_id
        self.settle(call.tool_call_id, "failed", "Rejected: nothing was changed.")
        return None

    def show(self, changes: Sequence[FileChange]) -> str:
        """Changes that were agreed to already; the id of the tool call that shows them."""
        return self._shown(changes).tool_call_id

    def settle(self, id: str, status: schema.ToolCallStatus, text: str = "") -> None:
        """How a tool call ended that shows changes; a text takes their place."""
        content = [text_content(text)] if text else None
        self._updates.send(helpers.update_tool_call(id, status=status, content=content))

    def _shown(self, changes: Sequence[FileChange]) -> schema.ToolCallUpdate:
        call = schema.ToolCallUpdate(
            tool_call_id=self._updates.new_id(),
            title=shown(_title(changes)),
            kind="edit",
            status="pending",
            content=diffs(self._paths, changes),
            locations=[
                schema.ToolCallLocation(
                    path=shown(self._paths.given(self._paths.locate(change.path)))
                )
                for change in changes
            ],
        )
        self._begin(call)
        return call

    async def _yes_or_no(
        self, question: str, kind: schema.ToolKind, options: Sequence[schema.PermissionOption]
    ) -> bool:
        call = schema.ToolCallUpdate(
            tool_call_id=self._updates.new_id(), title=shown(question), kind=kind, status="pending"
        )
        self._begin(call)
        is_yes = await self._ask(call, options) == "once"
        self.settle(call.tool_call_id, "completed" if is_yes else "failed")
        return is_yes

    def _begin(self, call: schema.ToolCallUpdate) -> None:
        self._updates.send(
            helpers.start_tool_call(
                call.tool_call_id,
                call.title or "",
                kind=call.kind,
                status=call.status,
                content=call.content,
                locations=call.locations,
            )
        )

    async def _ask(
        self, call: schema.ToolCallUpdate, options: Sequence[schema.PermissionOption]
    ) -> str | None:
        await self._updates.flush()
        return await self._client.ask(call, options)


def _about(question: Question) -> str:
    verdict, place = question.verdict, question.place
    part = f"`{printable(verdict.part)}` " if verdict.part else "it "
    lines = [
        printable(question.command.line),
        f"in {printable(str(place.cwd))}",
        f"You are asked because {part}{printable(verdict.reason)}.",
    ]
    if str(verdict.access):
        lines.append(f"It would get {verdict.access}.")
    if not place.is_sandboxed:
        lines.append("It would run without a sandbox, with all that you may do on this machine.")
    if question.rules:
        rules = ", ".join(printable(str(rule)) for rule in question.rules)
        lines.append(f"“Always” adds to your rules for this folder: {rules}")
    return "\n".join(lines)


def _title(changes: Sequence[FileChange]) -> str:
    paths = [change.path for change in changes]
    return f"Change {paths[0]}" if len(paths) == 1 else f"Change {len(paths)} files"
