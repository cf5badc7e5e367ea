"""Puts the server together."""

import asyncio
from collections.abc import Sequence

from composer_lsp.server.features import (
    agent,
    agent_changes,
    code_actions,
    code_lens,
    commands,
    completion,
    configuration,
    documents,
    index,
    inline_completion,
    life_cycle,
    next_edit,
    suggestions,
    workspace,
)
from composer_lsp.server.imports import import_engine_service
from composer_lsp.server.model_fetch import PULL_COMMAND
from composer_lsp.server.server import ComposerServer
from composer_lsp.server.service import CompletionService, ServiceFactory, ServiceHost

_FEATURES = (
    agent,
    agent_changes,
    code_actions,
    code_lens,
    commands,
    completion,
    configuration,
    documents,
    index,
    inline_completion,
    life_cycle,
    next_edit,
    suggestions,
    workspace,
)


def create_server(
    service_factory: ServiceFactory | None = None,
    pull_command: Sequence[str] = PULL_COMMAND,
) -> ComposerServer:
    """A server with every feature; without a factory its suggestions come from the engine."""
    server = ComposerServer(service_factory or _engine_service, pull_command)
    for feature in _FEATURES:
        feature.register(server)
    return server


async def _engine_service(host: ServiceHost) -> CompletionService:
    module = await asyncio.to_thread(import_engine_service)
    service: CompletionService = module.EngineService(host)
    return service
