"""`composer-lsp doctor`: what is there, what is missing, and the command that mends it."""

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from composer_inference import environment
from composer_inference.endpoint import (
    EndpointError,
    find_endpoint,
    lock_path,
    private_runtime_dir,
)
from composer_inference.hardware import Hardware, read_hardware
from composer_inference.models.choose import choose_model
from composer_inference.models.errors import ModelError
from composer_inference.models.store import ModelStore
from composer_lsp.cli.check import Check, can_be_written
from composer_lsp.cli.doctor_index import index_checks
from composer_lsp.config import EngineSettings, TabSettings

PACKAGES = ("composer-lsp", "pygls", "lsprotocol", "xllamacpp", "httpx", "starlette", "tokenizers")
_FOLDERS: dict[str, Callable[[], Path]] = {
    "data": environment.data_dir,
    "cache": environment.cache_dir,
    "state": environment.state_dir,
    "runtime": environment.runtime_dir,
}
_SNIPPET = 'def add(a, b):\n    """The sum of a and b."""\n    return '
_LIMIT_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument(
        "--no-start", action="store_true", help="do not start the engine, nor time a completion"
    )
    parser.epilog = "Exit status: 0 when everything is well, 1 when a check fails."


def run(args: argparse.Namespace) -> int:
    paths = _paths()
    checks = [_versions(), paths]
    if paths.ok:  # Everything below looks into those folders.
        hardware = read_hardware()
        checks += [*_folders(), _machine(hardware), _model(hardware), _runtime()]
        if checks[-1].ok:
            checks.append(_engine())
    if not args.no_start and all(check.ok for check in checks):
        checks.append(asyncio.run(_completion()))
    if paths.ok:
        checks += [_tab(), *index_checks()]
    checks.append(_sandbox())
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name:12} {check.detail}")
            if check.mend:
                print(f"{'':17} mend it: {check.mend}")
    return 0 if all(check.ok for check in checks) else 1


def _versions() -> Check:
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, number in found.items() if number is None]
    detail = f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {number or 'missing'}" for name, number in found.items()
    )
    mend = "pip install --force-reinstall composer-lsp" if missing else ""
    return Check(name="versions", ok=not missing, detail=detail, mend=mend)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _paths() -> Check:
    try:
        detail = ", ".join(f"{name} {folder()}" for name, folder in _FOLDERS.items())
        environment.force_tcp_endpoint()
        environment.log_level()
    except environment.EnvironmentVariableError as error:
        return Check(name="paths", ok=False, detail=str(error), mend="unset that variable")
    return Check(name="paths", ok=True, detail=detail)


def _folders() -> list[Check]:
    """One check for each folder that could not be written; the runtime folder's is `socket`."""
    found = {name: folder() for name, folder in _FOLDERS.items() if name != "runtime"}
    return [
        Check(
            name=name,
            ok=False,
            detail=f"{folder} cannot be written",
            mend=_mend_folder(name, folder),
        )
        for name, folder in found.items()
        if not can_be_written(folder)
    ]


def _mend_folder(name: str, folder: Path) -> str:
    if folder.is_dir() and hasattr(os, "getuid") and folder.stat().st_uid == os.getuid():
        return f"chmod u+rwx {folder}"
    home = Path.home()
    base = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    return f"export COMPOSER_{name.upper()}_DIR={base / f'.composer-{name}'}"


def _runtime() -> Check:
    try:
        private_runtime_dir()
        endpoint = find_endpoint()
    except EndpointError as error:
        return Check(
            name="socket",
            ok=False,
            detail=str(error),
            mend="export COMPOSER_RUNTIME_DIR=$HOME/.composer-run",
        )
    detail = str(endpoint) if endpoint is not None else "no engine is announced"
    return Check(name="socket", ok=True, detail=detail)


def _machine(hardware: Hardware) -> Check:
    features = " ".join(hardware.cpu_features)
    gpus = ", ".join(hardware.gpus) or "no GPU"
    detail = (
        f"{hardware.cpu or hardware.machine}, {hardware.num_usable_cores} usable of "
        f"{hardware.num_physical_cores} cores, "
        f"{hardware.available_memory_bytes / 1e9:.1f} of {hardware.total_memory_bytes / 1e9:.1f} "
        f"GB of memory free, {gpus} {features}"
    )
    return Check(name="hardware", ok=True, detail=detail.rstrip())


def _model(hardware: Hardware) -> Check:
    try:
        installed = [model.name for model in ModelStore().installed() if model.problem is None]
    except ModelError as error:
        return Check(name="model", ok=False, detail=str(error), mend="composer-lsp model list")
    choice = choose_model(hardware, installed)
    try:
        path = ModelStore().path(choice.name)
    except ModelError as error:
        mend = f"composer-lsp model pull {choice.name}"
        return Check(name="model", ok=False, detail=f"{choice.reason}; {error}", mend=mend)
    return Check(name="model", ok=True, detail=f"{choice.reason}; {path}")


def _tab() -> Check:
    """How quick suggestions were in the editor, and what was given up for it."""
    from composer_lsp.server.tab_pace import read_measured

    measured = read_measured()
    if measured is None:
        return Check(name="tab", ok=True, detail="no suggestions were timed in an editor yet")
    detail = (
        f"{measured.model} reads {measured.tokens_per_s:.0f} tokens a second here, and half of the "
        f"suggestions came within {measured.p50_ms / 1000:.1f} s"
    )
    return Check(name="tab", ok=True, detail=f"{detail}. {measured.note}".rstrip(". "))


def _sandbox() -> Check:
    """Where the agent's commands run. Nothing fails without one."""
    from composer_lsp.agent.commands.bubblewrap import SandboxError, find_bubblewrap

    try:
        bubblewrap = find_bubblewrap(os.environ.get("PATH", ""), [Path.cwd()])
    except SandboxError as error:
        return Check(name="sandbox", ok=True, detail=f"none for the agent's commands: {error}")
    detail = f"the agent's commands can run in one, by {bubblewrap.executable}"
    return Check(name="sandbox", ok=True, detail=detail)


def _engine() -> Check:
    from composer_inference.engine_lock import is_engine_lock_held, lock_holder
    from composer_lsp.engine.probe import read_health

    endpoint = find_endpoint()
    health = asyncio.run(read_health(endpoint)) if endpoint is not None else None
    if health is not None:
        detail = f"{health.status}, version {health.version}, process {health.pid}"
        return Check(name="engine", ok=True, detail=detail)
    if not is_engine_lock_held():
        return Check(name="engine", ok=True, detail="not running; it starts with the first request")
    pid = lock_holder()
    where = endpoint or "nowhere: its socket was removed"
    return Check(
        name="engine",
        ok=False,
        detail=f"process {pid or 'unknown'} is the engine and does not answer ({where})",
        mend=f"kill -9 {pid}" if pid is not None else f"fuser -k {lock_path()}",
    )


async def _completion() -> Check:
    from composer_lsp.completion.completer import Completer
    from composer_lsp.completion.request import CompletionRequest, DocumentSnapshot
    from composer_lsp.engine.errors import EngineError
    from composer_lsp.engine.launcher import Launcher
    from composer_lsp.engine.select import ConfiguredTabEngine

    settings = TabSettings()
    engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings)
    document = DocumentSnapshot(
        uri="untitled:doctor.py", version=1, text=_SNIPPET, language_id="python"
    )
    request = CompletionRequest(document=document, offset=len(_SNIPPET), trigger="invoked")
    started = time.perf_counter()
    log = environment.state_dir() / "engine.log"
    try:
        async with asyncio.timeout(_LIMIT_S):
            suggestions = await Completer(engine, lambda: settings).complete(request)
    except (EngineError, EndpointError, TimeoutError) as error:
        detail = str(error) or f"no answer within {_LIMIT_S:.0f} s"
        return Check(name="completion", ok=False, detail=detail, mend=f"less {log}")
    finally:
        await engine.aclose()
    elapsed = time.perf_counter() - started
    shown = "".join(suggestion.text for suggestion in suggestions)
    return Check(name="completion", ok=True, detail=f"{shown!r} in {elapsed:.2f} s")
