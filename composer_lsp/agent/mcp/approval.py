"""Asking the user about tool servers, and what is remembered of the answers.

A name is worth nothing: an approval holds for the digest of what was shown. When that changes, it is
asked again, with what has changed.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from composer_index.store.location import store_location
from composer_lsp.agent.commands.approval import Answer
from composer_lsp.agent.mcp.shown import shown
from composer_lsp.agent.workspace.directory import write_whole

logger = logging.getLogger(__name__)

Subject = Literal["start", "tools", "call"]
MAX_SUMMARY_CHARS = 800
_MAX_ARGUMENT_CHARS = 3_000
_MODE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerQuestion:
    """What the user is asked about a tool server."""

    subject: Subject
    """Whether to start it (or to call its URL), to offer its tools, to make one call."""
    server: str
    text: str
    """Lines, with what comes from the server or the repository made harmless to show."""
    choices: tuple[Answer, ...]
    """`session`: until the run ends. `always`: in this workspace, until what was shown changes."""

    @property
    def summary(self) -> str:
        """The text, or its begin and end, for message boxes: VS Code cuts one off after 1,000
        characters. Whoever shows it where it is not the text shows the text elsewhere."""
        if len(self.text) <= MAX_SUMMARY_CHARS:
            return self.text
        half = MAX_SUMMARY_CHARS // 2
        num_hidden = len(self.text) - 2 * half
        note = f" … {num_hidden:,} characters are left out here; Composer's log shows all … "
        return self.text[:half] + note + self.text[-half:]


class ServerApprover(Protocol):
    async def approve_server(self, question: ServerQuestion) -> Answer: ...


class Grants:
    """What the user has approved for one workspace, in a file that only they may read:

        {"servers": {NAME: {"identity", "lines", "tools": {TOOL: digest}, "always": {TOOL: digest}}}}

    A file that is not there or not whole holds no approval.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def of_workspace(cls, state: Path, root: Path) -> "Grants":
        """`state`: the folder of the user's state; `root`: the workspace's first folder."""
        # A folder's name in the state folder is the one that its index has in the cache.
        return cls(state / "mcp" / f"{store_location(state, root).name}.json")

    def of(self, server: str) -> Mapping[str, Any]:
        """Empty: nothing is approved. Reads the file."""
        return self._read().get(server, {})

    def set(self, server: str, **values: Any) -> None:
        """Replace some of what is known of a server. What cannot be written holds for nobody, and is
        asked again."""
        servers = self._read()
        servers[server] = {**servers.get(server, {}), **values}
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = json.dumps({"servers": servers}, indent=1).encode()
            write_whole(self._file, data, _MODE)
        except OSError as error:
            logger.warning("approvals of tool servers cannot be kept: %s", error)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            content = json.loads(self._file.read_bytes())
            servers = content["servers"]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("%s is not used: %s", self._file, error)
            return {}
        if not isinstance(servers, dict):
            return {}
        return {
            name: cast("dict[str, Any]", entry)
            for name, entry in cast("dict[str, Any]", servers).items()
            if isinstance(entry, dict)
        }


class ServerApprovals:
    """Of one run on one workspace. One question at a time; a denial holds until the run ends."""

    def __init__(self, grants: Grants, approver: ServerApprover | None) -> None:
        """`approver`: None where nobody can answer, and what is not approved yet is denied."""
        self._grants = grants
        self._approver = approver
        self._run: dict[tuple[str, str], str] = {}
        """(server, subject) to the digest that the user approved for this run."""
        self._tools: dict[str, dict[str, str]] = {}
        """Of each server, the tools that the user approved in this run, with their digests."""
        self._denied: set[tuple[str, str]] = set()
        self._asking = asyncio.Lock()

    @property
    def can_ask(self) -> bool:
        return self._approver is not None

    async def start(self, server: str, identity: str, lines: Sequence[str], why: str) -> bool:
        """Whether the server may be used. `why`: where it was named, for the question."""
        async with self._asking:
            granted = await asyncio.to_thread(self._grants.of, server)
            if granted.get("identity") == identity:
                return True
            text = _start_text(server, lines, why, granted.get("lines"))
            answer = await self._ask("start", server, identity, text, ("once", "always", "deny"))
            if answer == "always":
                await asyncio.to_thread(
                    # Whatever was approved of the server by this name was of another one.
                    lambda: self._grants.set(
                        server, identity=identity, lines=list(lines), tools={}, always={}
                    )
                )
            return answer != "deny"

    async def tools(
        self, server: str, digests: Mapping[str, str], texts: Mapping[str, str]
    ) -> bool:
        """Whether the tools may be offered. `digests` and `texts`: of each tool by its name. Fewer
        tools than were approved are no others."""
        async with self._asking:
            granted = _strings((await asyncio.to_thread(self._grants.of, server)).get("tools"))
            of_run = self._tools.get(server, {})
            if any(digests.items() <= approved.items() for approved in (granted, of_run)):
                return True
            known = {**granted, **of_run}
            whole = json.dumps(sorted(digests.items()))
            text = _tools_text(server, digests, texts, known)
            answer = await self._ask("tools", server, whole, text, ("once", "always", "deny"))
            if answer != "deny":
                self._tools[server] = dict(digests)
            if answer == "always":
                await asyncio.to_thread(lambda: self._grants.set(server, tools=dict(digests)))
            return answer != "deny"

    async def call(self, server: str, tool: str, digest: str, arguments: str) -> bool:
        """Whether a call may be made. `digest`: of the server and the tool."""
        async with self._asking:
            granted = await asyncio.to_thread(self._grants.of, server)
            always = _strings(granted.get("always"))
            if always.get(tool) == digest or self._run.get((server, f"call {tool}")) == digest:
                return True
            if self._approver is None:
                return False
            question = ServerQuestion(
                subject="call",
                server=server,
                text=f"Call {shown(tool, 100)} of the tool server {shown(server, 64)}, outside of the"
                f" sandbox, with\n{shown(arguments, _MAX_ARGUMENT_CHARS)} ?",
                choices=("once", "session", "always", "deny")
                if len(arguments) <= _MAX_ARGUMENT_CHARS
                else ("once", "deny"),
            )
            answer = await self._approver.approve_server(question)
            if answer == "session":
                self._run[server, f"call {tool}"] = digest
            if answer == "always":
                always[tool] = digest
                await asyncio.to_thread(lambda: self._grants.set(server, always=always))
            return answer != "deny"

    async def _ask(
        self,
        subject: Subject,
        server: str,
        digest: str,
        text: str,
        choices: tuple[Answer, ...],
    ) -> Answer:
        if self._run.get((server, subject)) == digest:
            return "once"
        if self._approver is None or (server, digest) in self._denied:
            return "deny"
        question = ServerQuestion(subject=subject, server=server, text=text, choices=choices)
        answer = await self._approver.approve_server(question)
        if answer == "deny":
            self._denied.add((server, digest))
        else:
            self._run[server, subject] = digest
        return answer


def _start_text(server: str, lines: Sequence[str], why: str, before: object) -> str:
    name = shown(server, 64)
    parts = [f"Use the tool server {name}? {why}", *lines]
    if isinstance(before, list) and before:
        kept = [str(line) for line in cast("list[object]", before)]
        gone = [f"Before: {shown(line, 2_000)}" for line in kept if line not in lines]
        parts = [
            f"The tool server {name}, which you approved, is another one now. Use it? {why}",
            *lines,
            *(gone or ["What was approved looked the same: a file or a value has changed."]),
        ]
    if any(line.startswith("Command: ") for line in lines):
        parts.append("It runs outside of the sandbox: it may read and write all that you may.")
    else:
        parts.append("What the agent gives its tools is sent there.")
    return "\n".join(parts)


def _tools_text(
    server: str, digests: Mapping[str, str], texts: Mapping[str, str], known: Mapping[str, str]
) -> str:
    name = shown(server, 64)
    lines = [
        f"{'changed' if tool in known else 'new' if known else '-'} {texts[tool]}"
        for tool, digest in digests.items()
        if known.get(tool) != digest
    ]
    begin = (
        f"The tools of {name}, which you approved, have changed. Offer them to the model?"
        if known
        else f"Offer the tools of {name} to the model? In the server's own words:"
    )
    return "\n".join([begin, *lines])


def _strings(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(name): str(each) for name, each in cast("dict[Any, Any]", value).items()}
