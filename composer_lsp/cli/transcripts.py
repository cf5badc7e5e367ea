"""`composer-lsp transcript list|show|resume|export`: the agent's past runs."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from composer_index.printable import printable
from composer_lsp.cli import ask
from composer_lsp.cli.ago import ago

if TYPE_CHECKING:
    from composer_lsp.agent.agent import Agent, Finished
    from composer_lsp.agent.events import Event
    from composer_lsp.agent.tools.context import ToolContext
    from composer_lsp.agent.transcript import Transcript

_FAILED = 2
_MAX_REQUEST_CHARS = 60


class _ChoiceError(Exception):
    """No transcript, or several, are meant; the text says which there are."""


class _Intermixed(argparse.ArgumentParser):
    """Takes options between an id and a request, which argparse alone does of all but subcommands."""

    _is_inside = False

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        namespace = namespace or argparse.Namespace()
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=_Intermixed
    )
    listed = actions.add_parser("list", help="list the runs, the newest first")
    listed.add_argument("--limit", type=_count, default=20, help="runs to list (default: 20)")
    listed.add_argument("--root", type=Path, help="only runs on this folder")
    show = actions.add_parser("show", help="print a run")
    _add_id(show)
    form = show.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown (the default)")
    form.add_argument("--json", action="store_true", help="as it is kept, one JSON object a line")
    resume = actions.add_parser(
        "resume",
        help="go on with a run that ended, in its folder; of one that finished, without a request, "
        "offer what was not applied",
    )
    _add_id(resume)
    resume.add_argument("request", nargs="*", help="what to do next, in words")
    ask.add_run_arguments(resume)
    ask.add_carry_out(resume)
    export = actions.add_parser("export", help="write a run into a file, as Markdown")
    _add_id(export)
    export.add_argument("file", type=Path, help="the file; one that ends in .jsonl gets the JSON")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on, not {number}")
    return number


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="the run's id, or how it begins; `last` is the newest")


def run(args: argparse.Namespace) -> int:
    from composer_lsp.agent.transcript import TranscriptError

    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "list": _list,
        "show": _show,
        "resume": _resume,
        "export": _export,
    }
    try:
        return actions[args.action](args)
    except (_ChoiceError, TranscriptError) as error:
        print(f"composer-lsp: {printable(str(error))}", file=sys.stderr)
        return _FAILED


def _list(args: argparse.Namespace) -> int:
    root = str(args.root.resolve()) if args.root else None
    transcripts = (each for each in _all() if root is None or root in each.header.roots)
    num_listed = 0
    for transcript in transcripts:
        if num_listed == args.limit:
            break
        num_listed += 1
        print(printable(_line(transcript)))
    # The folder of a run that is kept may have gone since.
    if not num_listed and root is not None and not args.root.is_dir():
        raise _ChoiceError(f"{args.root} is no folder, and no run on it is kept")
    if not num_listed:
        print("No run is kept.", file=sys.stderr)
    return 0


def _line(transcript: "Transcript") -> str:
    header = transcript.header
    request = " ".join(header.request.split())
    if len(request) > _MAX_REQUEST_CHARS:
        request = f"{request[: _MAX_REQUEST_CHARS - 1]}…"
    began = ago(time.time() - header.began)
    return f"{header.id}  {began:15}  {transcript.status:9}  {header.mode:5}  {request}"


def _show(args: argparse.Namespace) -> int:
    path = _path(args.id)
    if args.json:
        sys.stdout.write(path.read_text(encoding="utf-8", errors="replace"))
    else:
        for line in _markdown(path).split("\n"):
            print(printable(line))
    return 0


def _export(args: argparse.Namespace) -> int:
    path = _path(args.id)
    if args.file.suffix == ".jsonl":
        args.file.write_bytes(path.read_bytes())
    else:
        # A file's name or text can hold bytes that are no text.
        args.file.write_bytes(_markdown(path).encode("utf-8", "replace"))
    return 0


def _resume(args: argparse.Namespace) -> int:
    from composer_lsp.agent.resume import is_offered, offer_kept, resume_run
    from composer_lsp.agent.transcript import Transcript
    from composer_lsp.cli.agent_run import Beginning, carrying_out, steps_of

    path = _path(args.id)
    transcript = Transcript.read(path)
    header = transcript.header
    if len(header.roots) != 1:
        raise _ChoiceError(
            f"the run is on {len(header.roots)} folders; go on with it in the editor"
        )
    if args.carry_out and header.mode != "plan":
        raise _ChoiceError(f"the run {header.id} is no plan that could be carried out")
    args.root = Path(header.roots[0])
    text = " ".join(args.request).strip()
    if args.carry_out and not text and (steps := steps_of(transcript)):
        return ask.run_in_terminal(args, carrying_out(transcript, steps))

    is_asking_model = bool(text) or not is_offered(transcript)

    async def start(
        agent: "Agent", context: "ToolContext", emit: "Callable[[Event], None]", model: str
    ) -> "Finished":
        if not is_asking_model:
            return await offer_kept(path, emit, context=context)
        return await resume_run(agent, path, text, emit, context=context)

    label = text or header.request
    return ask.run_in_terminal(
        args, Beginning(id=header.id, label=label, start=start, asks_model=is_asking_model)
    )


def _markdown(path: Path) -> str:
    from composer_lsp.agent.transcript import Transcript
    from composer_lsp.agent.transcript_markdown import markdown

    return markdown(Transcript.read(path))


def _path(id: str) -> Path:
    paths = _paths()
    if id == "last" and paths:
        return paths[0]
    found = [path for path in paths if id and path.stem.startswith(id)]
    exact = [path for path in found if path.stem == id]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise _ChoiceError(
            f"there is no run {id or repr(id)}; `composer-lsp transcript list` lists them"
        )
    names = ", ".join(path.stem for path in found[:5])
    raise _ChoiceError(f"{len(found)} runs begin with {id}: {names}; give more of the id")


def _all() -> "Iterator[Transcript]":
    """The newest first; what cannot be read is told and left out."""
    from composer_lsp.agent.transcript import Transcript, TranscriptError

    for path in _paths():
        try:
            yield Transcript.read(path)
        except TranscriptError as error:
            print(f"composer-lsp: {printable(str(error))}", file=sys.stderr)


def _paths() -> list[Path]:
    from composer_inference.environment import state_dir
    from composer_lsp.agent.transcript import transcripts_in

    # Ids sort by time.
    return sorted(transcripts_in(state_dir()).glob("*.jsonl"), reverse=True)
