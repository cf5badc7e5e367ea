"""`composer-lsp engine`: the inference engine's process. Language servers start it on demand."""

import argparse
import logging
import sys
from pathlib import Path

from composer_inference import environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=["llama.cpp", "scripted"],
        default="llama.cpp",
        help="what computes; `scripted` answers from --script, for tests (default: llama.cpp)",
    )
    parser.add_argument("--script", type=Path, help="rules of the scripted backend, a JSON file")
    parser.add_argument(
        "--threads", type=int, default=0, help="compute threads (default: 0, one per physical core)"
    )
    parser.add_argument(
        "--context-tokens",
        type=int,
        default=8192,
        help="context of one request, in tokens (default: 8192)",
    )
    parser.add_argument(
        "--idle-exit-s",
        type=float,
        default=900,
        help="leave after this many seconds without a request; 0: never (default: 900)",
    )


def run(args: argparse.Namespace) -> int:
    from composer_inference.backends.base import BackendError
    from composer_inference.endpoint import EndpointError
    from composer_inference.engine_lock import AlreadyRunningError
    from composer_inference.loader import InstalledLoader, Loader, ScriptedLoader
    from composer_inference.process import run as run_engine

    logging.basicConfig(
        level=environment.log_level(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if args.backend == "scripted" and args.script is None:
        print("composer-lsp engine: --backend scripted needs --script FILE", file=sys.stderr)
        return 2
    try:
        loader: Loader
        if args.backend == "scripted":
            loader = ScriptedLoader(args.script)
        else:
            loader = InstalledLoader(threads=args.threads, context_tokens=args.context_tokens)
        run_engine(loader, idle_exit_s=args.idle_exit_s)
    except (AlreadyRunningError, BackendError, EndpointError) as error:
        print(f"composer-lsp engine: {error}", file=sys.stderr)
        return 1
    return 0
