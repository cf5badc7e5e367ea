"""Which models `composer-lsp index` searches with: its options, and what they come to."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from composer_lsp.config import EmbedderSettings, EngineSettings, IndexSettings, RerankerSettings
from composer_lsp.index.models import IndexModels, ModelsError

if TYPE_CHECKING:
    from composer_index.embedding.served import ServedEmbedder
    from composer_index.search.rerank import ServedReranker

_ENGINE_OR_URL = "one of the engine's, or with --{0}-url the name that the server knows"


def add_embedder(parser: argparse.ArgumentParser) -> None:
    _add_role(parser, "embedder", f"embedding model: {_ENGINE_OR_URL}; without it, the table")


def add_reranker(parser: argparse.ArgumentParser) -> None:
    _add_role(
        parser,
        "reranker",
        f"model that reads the best results again: {_ENGINE_OR_URL}; without it, none",
    )


def _add_role(parser: argparse.ArgumentParser, role: str, text: str) -> None:
    parser.add_argument(f"--{role}", metavar="MODEL", default="", help=text.format(role))
    parser.add_argument(
        f"--{role}-url", metavar="URL", default="", help="an OpenAI-compatible server"
    )
    parser.add_argument(
        f"--{role}-key-env",
        metavar="NAME",
        default="",
        help=f"environment variable that holds the key for --{role}-url",
    )


def models_of(
    args: argparse.Namespace,
) -> "tuple[ServedEmbedder | None, ServedReranker | None]":
    """The models that the options name; an embedder that is given has answered. The engine is
    started if it is needed.

    Raises: ModelsError, ModelServerError.
    """
    settings = IndexSettings(
        embedder=EmbedderSettings(
            model=args.embedder or "static",
            url=args.embedder_url,
            api_key_env=args.embedder_key_env,
        ),
        reranker=RerankerSettings(
            model=getattr(args, "reranker", ""),
            url=getattr(args, "reranker_url", ""),
            api_key_env=getattr(args, "reranker_key_env", ""),
            timeout_s=0,  # Whoever asks at a terminal waits for what was asked for.
        ),
    )
    roles = (settings.embedder, settings.reranker)
    for name, role in zip(("embedder", "reranker"), roles, strict=True):
        if role.url and role.model in ("", "static"):
            raise ModelsError(f"--{name}-url needs --{name}: the model that the server is to use")
    if settings.embedder.model == "static" and not settings.reranker.model:
        return None, None
    from composer_index.embedding.served import ServedEmbedder
    from composer_index.embedding.server import ModelServer, ServedModel
    from composer_index.search.rerank import ServedReranker

    models = IndexModels(lambda: settings, EngineSettings)
    if any(role.model not in ("", "static") and not role.url for role in roles):
        asyncio.run(models.launch())
    now = models.now()
    embedder = reranker = None
    if (fields := now["embedder"]) is not None:
        embedder = ServedEmbedder(ModelServer(ServedModel(**fields)))
        embedder.connect()
    if (fields := now["reranker"]) is not None:
        reranker = ServedReranker(ModelServer(ServedModel(**fields)))
    return embedder, reranker
