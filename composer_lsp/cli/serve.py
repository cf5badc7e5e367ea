"""`composer-lsp serve`: the language server on stdin and stdout."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="accepted because many editors add it; there is no other transport",
    )
    parser.add_argument(
        # vscode-languageclient adds it; the process id in `initialize` is what counts.
        *("--clientProcessId",),
        type=int,
        help=argparse.SUPPRESS,
    )


def run(args: argparse.Namespace) -> int:
    from composer_lsp.server.stdio import take_streams

    stdin, stdout = take_streams()

    # The rest may print and log, now that stdout is safe.
    from composer_inference.environment import log_level
    from composer_lsp.server.imports import import_lsp_types

    import_lsp_types()
    from composer_lsp.server.factory import create_server
    from composer_lsp.server.logs import set_up_logging

    set_up_logging(log_level())
    return create_server().run(stdin, stdout)
