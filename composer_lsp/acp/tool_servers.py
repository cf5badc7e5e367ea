"""The tool servers (MCP) that a client offers for a session."""

from collections.abc import Sequence
from typing import Any

from acp import schema

from composer_lsp.agent.mcp.configuration import Named

McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


def named_by_client(servers: Sequence[McpServer]) -> Named:
    return Named(
        source="client",
        where="the editor's list",
        servers={server.name: _entry(server) for server in servers},
    )


def _entry(server: McpServer) -> dict[str, Any]:
    """As a configuration has it."""
    match server:
        case schema.McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case schema.AcpMcpServer():
            return {
                "type": server.type
            }  # over the client's own connection, which is told as unknown
