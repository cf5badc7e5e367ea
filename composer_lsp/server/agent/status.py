"""What the agent of a window does and has."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from composer_lsp.agent.commands import SandboxError
from composer_lsp.agent.commands.bubblewrap import find_bubblewrap
from composer_lsp.index.client import WorkerError
from composer_lsp.server.session import Session


async def agent_status(session: Session) -> Mapping[str, Any]:
    """Its runs, its model, whether there is a sandbox or why not, and the index. No model is loaded
    for it."""
    runs, settings = await session.agent_runs(), session.settings
    model = {"configured": settings.agent.model, "url": settings.agent.url}
    return {
        "runs": [
            {name: each[name] for name in ("run", "mode", "request", "state")}
            | {"numChanges": len(each["changes"])}
            for each in map(runs.described, runs.ids)
        ],
        "model": {**model, "answered": runs.model_name},
        "sandbox": await asyncio.to_thread(_sandbox, session.index.index_roots()),
        "index": await _index(session),
    }


def _sandbox(roots: Sequence[str]) -> Mapping[str, Any]:
    try:
        find_bubblewrap(os.environ.get("PATH", ""), [Path(root) for root in roots])
    except SandboxError as error:
        return {"available": False, "why": str(error)}
    return {"available": True}


async def _index(session: Session) -> Mapping[str, Any]:
    if not session.settings.index.enabled:
        return {"available": False, "why": "the setting index.enabled is off"}
    try:
        return {"available": True, "folders": list(await session.index.service.status())}
    except WorkerError as error:
        return {"available": False, "why": str(error)}
