"""`composer-lsp complete FILE:LINE:COL`: the ghost text that an editor would show there."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from composer_lsp.cli.place import PlaceError, offset_of, parse_place, read_document
from composer_lsp.completion.answer import Answer, AnswerFileError, read_answer, save_answer
from composer_lsp.completion.explanation import as_markdown, explained
from composer_lsp.completion.prompt import path_end, with_newlines
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.completion.templates import template_names
from composer_lsp.config import EngineSettings, TabSettings

_NO_SUGGESTION = 1
_FAILED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = TabSettings()
    parser.add_argument(
        "place",
        nargs="?",
        metavar="FILE:LINE[:COL]",
        help="the cursor, counted from 1 in characters; without COL, the line's end",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print text, offsets, timings in ms and numbers of tokens",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="tell why: the prompt's parts, times, tokens, score and what was trimmed",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write the model's answer there, for --replay"
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="trim and judge a saved answer again, without an engine, and explain it",
    )
    parser.add_argument("--model", default=defaults.model, help="model name (default: auto)")
    parser.add_argument(
        "--url", default="", help="an OpenAI-compatible server in place of the local engine"
    )
    parser.add_argument(
        "--api-key-env", default="", help="environment variable that holds the key for --url"
    )
    parser.add_argument(
        "--fim-template",
        default=defaults.fim_template,
        choices=["auto", *template_names()],
        metavar="NAME",
        help=f"auto (default), {', '.join(template_names())}",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=defaults.max_tokens,
        help=f"longest suggestion, in tokens (default: {defaults.max_tokens})",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="another file whose text goes into the prompt; may be given several times",
    )
    parser.epilog = "Exit status: 0 with a suggestion, 1 without one, 2 when it failed."


def run(args: argparse.Namespace) -> int:
    from composer_inference.endpoint import EndpointError
    from composer_lsp.engine.errors import EngineError

    try:
        if args.replay is not None:
            return _replay(args)
        if args.place is None:
            raise PlaceError("give a place, such as app.py:12, or --replay FILE")
        return asyncio.run(_complete(args))
    except (PlaceError, AnswerFileError, EngineError, EndpointError) as error:
        print(f"composer-lsp complete: {error}", file=sys.stderr)
        return _FAILED


def _replay(args: argparse.Namespace) -> int:
    """Raises: AnswerFileError."""
    if args.place is not None:
        raise AnswerFileError("--replay takes its place from the file; leave the other one out")
    try:
        answer = read_answer(args.replay.read_text(encoding="utf-8"))
    except OSError as error:
        raise AnswerFileError(f"cannot read {args.replay}: {error.strerror}") from error
    except (AnswerFileError, UnicodeDecodeError) as error:
        raise AnswerFileError(f"{args.replay}: {error}") from error
    _explain(answer, as_json=args.json)
    return 0 if answer.is_shown else _NO_SUGGESTION


async def _complete(args: argparse.Namespace) -> int:
    from composer_lsp.completion.completer import Completer
    from composer_lsp.completion.context import FixedContext
    from composer_lsp.engine.launcher import Launcher
    from composer_lsp.engine.select import ConfiguredTabEngine

    settings = _settings_of(args)
    place = parse_place(args.place)
    document = read_document(place.path)
    offset = offset_of(document.text, place)
    context = _context_of(args.beside)
    engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings)
    request = CompletionRequest(document=document, offset=offset, trigger="invoked")
    completer = Completer(engine, lambda: settings, context=FixedContext(context))
    try:
        suggestions = await completer.complete(request)
    finally:
        await engine.aclose()
    suggestion = next(iter(suggestions), None)
    answer = completer.answers.latest()
    if args.save is not None and answer is not None:
        _save(answer, args.save)
    if args.explain and answer is not None:
        _explain(answer, as_json=args.json)
    elif args.json:
        print(_as_json(suggestion, request.offset))
    elif suggestion:
        print(suggestion.text)
    return 0 if suggestion else _NO_SUGGESTION


def _settings_of(args: argparse.Namespace) -> TabSettings:
    return TabSettings(
        model=args.model,
        url=args.url,
        api_key_env=args.api_key_env,
        fim_template=args.fim_template,
        max_tokens=args.max_tokens,
    )


def _save(answer: Answer, path: Path) -> None:
    """Raises: AnswerFileError."""
    try:
        save_answer(answer, path)
    except OSError as error:
        raise AnswerFileError(f"cannot write {path}: {error.strerror}") from error


def _explain(answer: Answer, *, as_json: bool) -> None:
    explanation = explained(answer)
    if as_json:
        print(json.dumps(explanation.as_json(), ensure_ascii=False))
    else:
        print(as_markdown(explanation), end="")


def _context_of(paths: Sequence[Path]) -> RepositoryContext:
    """Raises: PlaceError."""
    return RepositoryContext(
        snippets=tuple(
            Snippet(
                path=path_end(path.absolute().as_posix()),
                text=with_newlines(read_document(path).text),
            )
            for path in paths
        )
    )


def _as_json(suggestion: Suggestion | None, offset: int) -> str:
    return json.dumps(
        {
            "text": suggestion.text if suggestion else None,
            "start": suggestion.start if suggestion else offset,
            "end": suggestion.end if suggestion else offset,
            "timings_ms": {name: round(ms, 1) for name, ms in suggestion.timings.items()}
            if suggestion
            else {},
            "tokens": dict(suggestion.tokens) if suggestion else {},
        },
        ensure_ascii=False,
    )
