"""The agent's commands: ask, plan, edit and the like, and what is known of runs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.server.agent.arguments import Options, read_options, text_at
from composer_lsp.server.protocol import work_done_token
from composer_lsp.server.server import ComposerServer

# What runs the agent is imported by its first command (`Session.agent_runs`): here only where it is
# known to be there.
if TYPE_CHECKING:
    from composer_lsp.agent.prompt.system import Mode, Request
    from composer_lsp.server.agent.runs import Runs

JsonObject = dict[str, Any]

_MODES: "Mapping[str, tuple[Mode, str]]" = {
    "composer.ask": ("ask", ""),
    "composer.explain": ("ask", "Explain this code."),
    "composer.plan": ("plan", ""),
    "composer.edit": ("edit", ""),
    "composer.fix": ("fix", "Fix the problems here."),
    "composer.test": ("test", "Write tests for this code."),
}
"""Each with its mode, and the request where none is given."""


def register(server: ComposerServer) -> None:
    for name, (mode, request) in _MODES.items():
        server.command(name)(_starter(name, mode, request))
    for name, command in {
        "composer.editSelection": edit_selection,
        "composer.stop": stop,
        "composer.runs": runs,
        "composer.transcript": transcript,
    }.items():
        server.command(name)(command)


def _starter(name: str, mode: "Mode", default: str) -> Callable[..., Awaitable[JsonObject]]:
    async def start(ls: ComposerServer, *arguments: Any) -> JsonObject:
        """Arguments: the request, and optionally an object (`Options`). Answers when the run has
        ended, with its text and its pending changes; cancelling the request stops it."""
        options = read_options(name, arguments)
        service = await ls.session.agent_runs()
        from composer_lsp.agent.run import GOES_ON
        from composer_lsp.server.agent.failures import told
        from composer_lsp.server.agent.requests import make_request

        with told():
            text, plan = _words(name, arguments, default), ()
            if options.plan is not None:
                plan = tuple(service.plan(options.plan))
                text = text or service.one(options.plan).request.text
            if options.continues is not None:
                text = text or GOES_ON
            if not text:
                raise JsonRpcInvalidParams(f"{name} takes a request in words")
            request = await make_request(ls.session, mode, text, options, plan)
            return await _run(ls, service, request, options)

    return start


async def edit_selection(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: the instruction, and an object with `uri` and `range`. One question to the model,
    whose answer takes the place of the selected lines, and is pending."""
    name = "composer.editSelection"
    options, text = read_options(name, arguments), _words(name, arguments, "")
    if options.continues is not None:
        raise JsonRpcInvalidParams(f"{name} goes on from no run; composer.edit does")
    if not text:
        raise JsonRpcInvalidParams(f"{name} takes a request in words")
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told
    from composer_lsp.server.agent.requests import rewrite_request

    with told():
        request = await rewrite_request(ls.session, text, options)
        return await _run(ls, service, request, options, rewrites=True)


async def stop(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run, or none for all that are running."""
    id = text_at("composer.stop", arguments, 0)
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told

    with told():
        return {"stopped": await service.stop(id)}


async def runs(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """The runs of this window, the newest first, with what is pending of each."""
    service = await ls.session.agent_runs()
    return {"runs": [dict(service.described(id)) for id in service.ids]}


async def transcript(ls: ComposerServer, *arguments: Any) -> JsonObject:
    """Arguments: a run of this window, or a transcript's id. Where it is, and its messages."""
    id = text_at("composer.transcript", arguments, 0)
    if id is None:
        raise JsonRpcInvalidParams("composer.transcript takes a run; composer.runs lists them")
    service = await ls.session.agent_runs()
    from composer_lsp.server.agent.failures import told

    with told():
        return dict(await service.transcript(id))


async def _run(
    ls: ComposerServer,
    service: "Runs",
    request: "Request",
    options: Options,
    *,
    rewrites: bool = False,
) -> JsonObject:
    from composer_lsp.server.agent.watcher import Watcher

    watcher = Watcher(ls.session, options.token, work_done_token.get())
    run = service.begin(request, watcher.tell, rewrites=rewrites, continues=options.continues)
    if options.is_detached:
        ls.session.run_in_background(watcher.show(service, run))
        return dict(service.described(run.id))
    await watcher.answer(service, run)
    return dict(service.described(run.id))


def _words(name: str, arguments: tuple[Any, ...], default: str) -> str:
    text = arguments[0] if arguments and arguments[0] is not None else default
    if not isinstance(text, str):
        raise JsonRpcInvalidParams(f"{name} takes a request in words, not {text!r}")
    return text.strip()
