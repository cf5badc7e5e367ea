"""Which folders and documents are files of this machine."""

import os

import pytest

from composer_lsp.server.window_index import local_path

posix_only = pytest.mark.skipif(os.name == "nt", reason="drives and shares")


@posix_only
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/me/shop.py", "/home/me/shop.py"),
        ("file://localhost/home/me/shop.py", "/home/me/shop.py"),
        ("FILE:///home/me/shop.py", "/home/me/shop.py"),
        ("file:///home/na%C3%AFve%20shop", "/home/naïve shop"),
        ("file:///%FF", "/\ufffd"),
    ],
)
def test_a_path_of_this_machine(uri: str, path: str):
    assert local_path(uri) == path


@posix_only
@pytest.mark.parametrize(
    "uri",
    [
        "vscode-remote://ssh-remote+host/home/me",
        "vscode-vfs://github/owner/name",
        "untitled:Untitled-1",
        "https://host/home/me",
        "file://server/home/me",
        "file://wsl%24/Ubuntu/home/me",
        "file://wsl.localhost/Ubuntu/home/me",
        "file:///c%3A/Users/me",
        "file:home/me",
        "file:",
        "/home/me",
        "",
        "file:///nul%00byte",
        "file:///half a pair \ud800",
        "file://[/home/me",
    ],
)
def test_what_is_none_is_not_glued_to_one(uri: str):
    assert local_path(uri) is None
