"""`composer-lsp model quantize` and `upcycle`: write a model in another form, by our own engine."""

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from composer_inference.models.errors import ModelError
from composer_inference.models.store import ModelStore

_NEEDED = ("gguf", "jaxtyping", "safetensors", "torch")
OnBytes = Callable[[int, int], None]


class ConversionError(ModelError):
    """The model cannot be written in this form."""


def add_quantize_arguments(parser: argparse.ArgumentParser) -> None:
    _add_paths(parser)


def add_upcycle_arguments(parser: argparse.ArgumentParser) -> None:
    _add_paths(parser)
    parser.add_argument(
        "--experts", type=int, required=True, metavar="N", help="experts of each layer"
    )
    parser.add_argument(
        "--top-k", type=int, required=True, metavar="K", help="experts that each token takes"
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="experts are slices of the feed-forward, K of which make it whole (default: copies of it)",
    )


def _add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SRC",
        help="a folder with config.json and safetensors, a GGUF file, or an installed model's name",
    )
    parser.add_argument("target", type=Path, metavar="DST", help="the folder to make")


def quantize(store: ModelStore, args: argparse.Namespace, on_bytes: OnBytes) -> None:
    """Raises: ModelError."""
    _check_extra("quantize")
    from composer_inference.backends.base import BackendError
    from composer_inference.weights.quantize import quantize_checkpoint

    try:
        quantize_checkpoint(_source(store, args.source), args.target, on_bytes=on_bytes)
    except BackendError as error:
        raise ConversionError(str(error)) from error


def upcycle(store: ModelStore, args: argparse.Namespace, on_bytes: OnBytes) -> None:
    """Raises: ModelError."""
    _check_extra("upcycle")
    from composer_inference.backends.base import BackendError
    from composer_inference.weights.upcycle import UpcycleConfig, upcycle_checkpoint

    config = UpcycleConfig(num_experts=args.experts, top_k=args.top_k, split=args.split)
    source = _source(store, args.source)
    try:
        upcycle_checkpoint(source, args.target, config, on_bytes=on_bytes)
    except BackendError as error:
        raise ConversionError(str(error)) from error


def _source(store: ModelStore, source: str) -> Path:
    path = Path(source)
    is_path = path.exists() or "/" in source or "\\" in source
    return path if is_path else store.path(source)


def _check_extra(action: str) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConversionError(
            f"{action} needs {', '.join(missing)}; install with: pip install 'composer-lsp[torch]'"
        )
