"""A tool server that leaves a mark where it was started, for tests of those who host the agent."""

import sys
from pathlib import Path
from typing import Any

from tests.support.chat_server import FakeChat, Said

SERVER = Path(__file__).with_name("sdk_server.py")
CALL: Said = [("mcp__docs__echo", {"text": "hello"})]
DONE: Said = [("finish", {"summary": "Done."})]


def marking(mark: Path) -> dict[str, Any]:
    """As a configuration has it; the file `mark` is there when it was started."""
    script = f"touch '{mark}'; exec '{sys.executable}' '{SERVER}' stdio"
    return {"command": "sh", "args": ["-c", script]}


def was_started(mark: Path) -> bool:
    return mark.exists()


def results(chat: FakeChat) -> list[str]:
    """What the model was answered."""
    messages: list[Any] = chat.requests[-1]["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"]


def offered(chat: FakeChat) -> list[str]:
    """The servers' tools that the model was offered."""
    names = [tool["function"]["name"] for tool in chat.requests[0]["tools"]]
    return [name for name in names if name.startswith("mcp__")]
