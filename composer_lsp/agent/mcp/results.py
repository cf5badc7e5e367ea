"""What a server answers a call, as text for the model. Only text is passed on; the rest is named."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from composer_lsp.agent.mcp.shown import shown

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

MAX_BLOCKS = 200


def text_of(result: "CallToolResult") -> str:
    parts = [_text(block) for block in result.content[:MAX_BLOCKS]]
    if len(result.content) > MAX_BLOCKS:
        parts.append(f"[{len(result.content) - MAX_BLOCKS:,} more parts are left out]")
    structured = result.structured_content
    # A server that speaks to older clients too has the same JSON in its text.
    if structured is not None and not any(block.type == "text" for block in result.content):
        parts.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(_not_empty(parts)) or "(no output)"


def _not_empty(parts: Iterable[str]) -> Iterable[str]:
    return (part for part in parts if part)


def _text(block: "ContentBlock") -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            num_bytes = len(block.data) * 3 // 4
            kind = shown(block.mime_type, 60)
            return f"[{block.type}: {kind}, about {num_bytes:,} bytes, not passed on]"
        case "resource_link":
            return f"[resource: {shown(block.name, 200)} at {shown(str(block.uri), 400)}]"
        case "resource":
            return f"[resource: {shown(str(block.resource.uri), 400)}, not passed on]"
