import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_inference.endpoint import (
    EndpointError,
    SocketPathTooLongError,
    TcpEndpoint,
    UnixEndpoint,
    UnsafeRuntimeDirError,
    bind_endpoint,
    find_endpoint,
    is_announced,
    is_listening,
    private_runtime_dir,
    withdraw_endpoint,
)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="c-"))
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(base / "r"))
    yield base / "r"
    shutil.rmtree(base)


@pytest.fixture(params=["unix", "tcp"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COMPOSER_ENGINE_TRANSPORT", request.param)
    return request.param


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_runtime_dir_is_made_for_its_user_alone(runtime: Path) -> None:
    assert private_runtime_dir() == runtime
    assert mode(runtime) == 0o700
    assert private_runtime_dir() == runtime


@pytest.mark.parametrize("bits", [0o750, 0o705, 0o777, 0o701])
def test_runtime_dir_open_to_others_is_refused(runtime: Path, bits: int) -> None:
    runtime.mkdir()
    runtime.chmod(bits)
    with pytest.raises(UnsafeRuntimeDirError, match=f"mode {bits:04o}.*chmod 700"):
        private_runtime_dir()


def test_runtime_dir_behind_a_link_is_refused(runtime: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    runtime.symlink_to(tmp_path)
    with pytest.raises(UnsafeRuntimeDirError, match="symbolic link"):
        find_endpoint()


def test_runtime_dir_of_another_user_is_refused(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.mkdir(mode=0o700)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(UnsafeRuntimeDirError, match=f"belongs to user {uid}"):
        private_runtime_dir()


def test_file_in_place_of_the_runtime_dir_is_refused(runtime: Path) -> None:
    runtime.touch(mode=0o700)
    with pytest.raises(UnsafeRuntimeDirError, match="not a folder"):
        private_runtime_dir()


def test_runtime_dir_that_cannot_be_made_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(tmp_path / "file/r"))
    with pytest.raises(EndpointError, match=r"Not a directory; set COMPOSER_RUNTIME_DIR"):
        private_runtime_dir()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_runtime_dir_that_cannot_be_written_names_the_way_out(runtime: Path) -> None:
    runtime.mkdir(mode=0o500)
    with pytest.raises(EndpointError, match=rf"chmod 700 {runtime}"):
        private_runtime_dir()


def test_socket_path_too_long_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(tmp_path / ("d" * 100)))
    with pytest.raises(SocketPathTooLongError, match="COMPOSER_RUNTIME_DIR"):
        bind_endpoint()


def test_endpoint_is_found_while_it_is_bound(runtime: Path, transport: str) -> None:
    assert find_endpoint() is None
    listener, endpoint = bind_endpoint()
    with listener:
        assert isinstance(endpoint, UnixEndpoint if transport == "unix" else TcpEndpoint)
        assert find_endpoint() == endpoint
        assert is_listening(endpoint)
    assert not is_listening(endpoint)
    withdraw_endpoint(endpoint)
    assert find_endpoint() is None


def test_what_a_dead_engine_left_is_taken_over(runtime: Path, transport: str) -> None:
    dead, _ = bind_endpoint()
    dead.close()
    listener, endpoint = bind_endpoint()
    with listener:
        assert find_endpoint() == endpoint
        assert is_listening(endpoint)


def test_successor_of_a_draining_engine_keeps_its_announcement(
    runtime: Path, transport: str
) -> None:
    old_listener, old = bind_endpoint()
    withdraw_endpoint(old)
    listener, endpoint = bind_endpoint()
    with old_listener, listener:
        withdraw_endpoint(old)
        assert find_endpoint() == endpoint
        assert is_listening(endpoint)


def test_token_is_for_its_user_alone_and_never_printed(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_ENGINE_TRANSPORT", "tcp")
    listener, endpoint = bind_endpoint()
    with listener:
        assert isinstance(endpoint, TcpEndpoint)
        assert mode(runtime / "engine.json") == 0o600
        assert len(endpoint.token) >= 32
        assert endpoint.token not in f"{endpoint!r} {endpoint}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"port": "x", "token": "t"}',
        '{"port": 65536, "token": "t"}',
        '{"port": 0, "token": "t"}',
        '{"port": 1e999, "token": "t"}',
        "[" * 100_000,
    ],
    ids=range(8),
)
def test_broken_announcement_is_named(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("COMPOSER_ENGINE_TRANSPORT", "tcp")
    private_runtime_dir()
    (runtime / "engine.json").write_text(text)
    with pytest.raises(EndpointError, match=r"engine\.json"):
        find_endpoint()


def test_a_socket_removed_as_soon_as_it_was_bound_is_not_announced(runtime: Path) -> None:
    assert not is_announced(UnixEndpoint(runtime / "engine.sock", identity=None))
