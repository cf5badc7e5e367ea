"""`composer-lsp engine`: the inference engine's process. Language servers start it on demand."""

import argparse
import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from composer_inference import environment

_OF_TORCH = {
    **{"model": "auto", "device": "auto", "dtype": "auto", "experts": "auto"},
    **{"cache_mb": 0, "step_tokens": 0, "max_sequences": 0, "draft_model": ""},
}
"""Options of --backend torch, and what they are where nobody gives them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """In the order in which the help shows them."""
    _add_models(parser)
    _add_devices(parser)
    _add_formats(parser)
    _add_batching(parser)
    _add_draft_model(parser)
    _add_process(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=["llama.cpp", "torch", "scripted"],
        default="llama.cpp",
        help="what computes: llama.cpp, or our own decoder on torch; `scripted` answers from --script, "
        "for tests (default: llama.cpp)",
    )
    parser.add_argument(
        "--model",
        default="auto",
        help="what the name `auto` means with --backend torch: a folder with config.json and "
        "safetensors, a GGUF file, or an installed model (default: what suits the machine)",
    )


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
        help="of --backend torch (default: auto, the GPU where there is one)",
    )
    parser.add_argument(
        "--tp",
        type=int,
        default=1,
        help="of --backend torch, tensor parallelism: so many processes, on a GPU each, share every "
        "layer's heads and hidden dims (default: 1)",
    )
    parser.add_argument(
        "--ep",
        type=int,
        default=1,
        help="of --backend torch, expert parallelism: a mixture's experts are shared out over so many "
        "processes, or with --tp over so many groups of its processes (default: 1)",
    )


def _add_formats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=["auto", "f32", "bf16"],
        default="auto",
        help="of --backend torch (default: auto, bf16 on a GPU and on a CPU with AVX-512 BF16, "
        "else f32)",
    )
    parser.add_argument(
        "--experts",
        choices=["auto", "mxfp8", "dense"],
        default="auto",
        help="of --backend torch, how a mixture's experts are kept: quantised to MXFP8 while "
        "loading, or in --dtype (default: auto, as stored where that is MXFP8 or MXFP4, else mxfp8 on a "
        "GPU and --dtype on a CPU)",
    )


def _add_batching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache-mb",
        type=_whole,
        default=0,
        help="of --backend torch, each process's memory for keys and values, a draft model's among them, "
        "in 2^20 bytes "
        "(default: 0, on a GPU four fifths of what is free, on a CPU 8 contexts or a quarter of it)",
    )
    parser.add_argument(
        "--step-tokens",
        type=_whole,
        default=0,
        help="of --backend torch, tokens computed between two chances to stop "
        "(default: 0, as many as take 0.15 s)",
    )
    parser.add_argument(
        "--max-sequences",
        type=_whole,
        default=0,
        help="of --backend torch, requests computed together "
        "(default: 0, 8 on a CPU and 64 on a GPU)",
    )


def _add_draft_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--draft-model",
        default="",
        help="of --backend torch, a smaller model with the same vocabulary (a folder, a GGUF file or an "
        "installed model) that drafts what the larger one verifies, which changes no text "
        "(default: none)",
    )


def _add_process(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--script", type=Path, help="rules of the scripted backend, a JSON file")
    parser.add_argument(
        "--threads",
        type=_whole,
        default=0,
        help="compute threads (default: 0, one per physical core)",
    )
    parser.add_argument(
        "--context-tokens",
        type=_count,
        default=8192,
        help="context of one request, in tokens (default: 8192)",
    )
    parser.add_argument(
        "--idle-exit-s",
        type=float,
        default=900,
        help="leave after this many seconds without a request; 0: never (default: 900)",
    )


def _whole(text: str) -> int:
    return _at_least(0, text)


def _count(text: str) -> int:
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
    return number


def run(args: argparse.Namespace) -> int:
    from composer_inference.api.service import EngineError
    from composer_inference.backends.base import BackendError
    from composer_inference.backends.torch_config import DecoderOptions
    from composer_inference.decoder.parallel.shard import ParallelConfig
    from composer_inference.endpoint import EndpointError
    from composer_inference.engine_lock import AlreadyRunningError
    from composer_inference.loader import InstalledLoader, Loader, ScriptedLoader
    from composer_inference.process import run as run_engine
    from composer_inference.torch_loader import TorchLoader

    logging.basicConfig(
        level=environment.log_level(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if args.backend == "scripted" and args.script is None:
        print("composer-lsp engine: --backend scripted needs --script FILE", file=sys.stderr)
        return 2
    misplaced = [name for name, default in _OF_TORCH.items() if getattr(args, name) != default]
    if args.backend != "torch" and misplaced:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in misplaced)
        print(
            f"composer-lsp engine: {options}: of --backend torch alone; leave out, or add that",
            file=sys.stderr,
        )
        return 2
    if args.backend == "torch" and find_spec("torch") is None:
        print(
            "composer-lsp engine: --backend torch needs torch; "
            "install it with: pip install 'composer-lsp[torch]'",
            file=sys.stderr,
        )
        return 2
    try:
        loader: Loader
        if args.backend == "scripted":
            loader = ScriptedLoader(args.script)
        elif args.backend == "torch":
            options = DecoderOptions(
                device=args.device,
                parallel=ParallelConfig(tp=args.tp, ep=args.ep),
                dtype=args.dtype,
                experts=args.experts,
                cache_bytes=args.cache_mb << 20,
                step_tokens=args.step_tokens,
                max_sequences=args.max_sequences,
            )
            loader = TorchLoader(
                args.model,
                options,
                threads=args.threads,
                context_tokens=args.context_tokens,
                draft_model=args.draft_model,
            )
        else:
            loader = InstalledLoader(threads=args.threads, context_tokens=args.context_tokens)
        run_engine(loader, idle_exit_s=args.idle_exit_s)
    except (AlreadyRunningError, BackendError, EndpointError, EngineError) as error:
        print(f"composer-lsp engine: {error}", file=sys.stderr)
        return 1
    return 0
