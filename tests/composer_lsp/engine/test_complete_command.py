"""`composer-lsp complete`, as a process against the scripted engine."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_lsp.cli.place import Place, PlaceError, offset_of, parse_place
from composer_lsp.config import EngineSettings
from composer_lsp.engine.launcher import Launcher


@pytest.fixture
def source(homes: Path, script: Path) -> Iterator[Path]:
    """A file, and a scripted engine that answers 42, or three words behind `quick`."""
    path = homes / "a.txt"
    path.write_text("quick = \nnothing = \r\nμ = ")
    arguments = ("--backend=scripted", f"--script={script}")
    asyncio.run(Launcher(EngineSettings, arguments=arguments).ensure())
    yield path


def complete(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "composer_lsp", "complete", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_text_is_printed(source: Path) -> None:
    done = complete(f"{source}:1:9")
    assert (done.stdout, done.stderr, done.returncode) == ("one two three\n", "", 0)


def test_json_has_offsets_and_timings(source: Path) -> None:
    done = complete(f"{source}:3", "--json")
    answer = json.loads(done.stdout)
    assert answer["text"] == "one two three"
    assert answer["start"] == answer["end"] == len("quick = \nnothing = \r\nμ = ")
    assert set(answer["tokens"]) == {
        "num_cached_tokens",
        "num_prefill_tokens",
        "num_decoded_tokens",
    }
    assert answer["tokens"]["num_decoded_tokens"] == 3
    assert answer["timings_ms"]["total"] >= answer["timings_ms"]["first_token"] >= 0


def test_no_suggestion_is_status_1(source: Path, homes: Path) -> None:
    other = homes / "b.py"
    other.write_text("f(42")
    done = complete(f"{other}:1:3", "--json")
    assert json.loads(done.stdout)["text"] is None
    assert (done.stderr, done.returncode) == ("", 1)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("a.py", "is not like FILE:LINE"),
        ("missing.py:1:1", "cannot read missing.py: No such file"),
        ("{source}:9", "has 3 lines, no line 9"),
        ("{source}:1:99", "has 8 characters, no column 99"),
        ("{homes}/.env:1", "secrets"),
        ("{homes}/w/hidden.py:1", "hidden.py is hidden by {homes}/w/.composerignore"),
        ("{homes}/latin.py:1", "not UTF-8"),
        ("{homes}:1", "cannot read {homes}: it is not a regular file"),
        ("{homes}/pipe.py:1", "cannot read {homes}/pipe.py: it is not a regular file"),
        ("/dev/zero:1", "cannot read /dev/zero: it is not a regular file"),
        ("{homes}/large.py:1", "cannot read {homes}/large.py: it is larger than 16 MiB"),
        ("{source}:" + "9" * 5000, "no line or column with a number of 5000 digits"),
        ("{source}:1:" + "9" * 5000, "no line or column with a number of 5000 digits"),
        ("{homes}/server.KEY:1", "server.KEY may hold secrets by its name; it is never"),
    ],
    ids=lambda text: text[:40],
)
def test_wrong_places_are_named(source: Path, homes: Path, place: str, message: str) -> None:
    (homes / ".env").write_text("KEY=")
    (homes / "server.KEY").write_text("KEY=")
    (homes / "latin.py").write_bytes(b"\xe9")
    os.mkfifo(homes / "pipe.py")
    with (homes / "large.py").open("wb") as file:
        file.truncate((16 << 20) + 1)
    (homes / "w").mkdir()
    (homes / "w/.composerignore").write_text("hidden.py")
    (homes / "w/hidden.py").write_text("x = ")
    done = complete(place.format(source=source, homes=homes))
    assert message.format(homes=homes) in done.stderr and "Traceback" not in done.stderr
    assert (done.stdout, done.returncode) == ("", 2)


def test_hidden_file_beside_is_refused(source: Path, homes: Path) -> None:
    (homes / ".env").write_text("KEY=")
    done = complete(f"{source}:1:9", "--beside", str(homes / ".env"))
    assert "secrets" in done.stderr and (done.stdout, done.returncode) == ("", 2)


def test_text_of_a_file_beside_is_in_the_prompt(source: Path, homes: Path) -> None:
    (homes / "b.py").write_text("x = ")
    (homes / "other.py").write_text("quick = 1\n")
    place, other = f"{homes}/b.py:1", str(homes / "other.py")
    assert complete(place).stdout == "42\n"
    assert complete(place, "--beside", other).stdout == "one two three\n"


def test_unreachable_server_is_named(source: Path) -> None:
    done = complete(f"{source}:1", "--url", "http://127.0.0.1:9/v1", "--model", "m")
    assert "http://127.0.0.1:9/v1 cannot be reached" in done.stderr
    assert done.returncode == 2


def test_help_lists_the_templates() -> None:
    text = " ".join(complete("--help").stdout.split())
    assert "auto (default), qwen" in text and "infill" in text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.py:3", Place(Path("a.py"), 3, None)),
        ("a.py:3:4", Place(Path("a.py"), 3, 4)),
        ("dir:x/a.py:3:4", Place(Path("dir:x/a.py"), 3, 4)),
        ("C:\\a.py:3", Place(Path("C:\\a.py"), 3, None)),
    ],
)
def test_places_are_read(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    ("text", "line", "column", "offset"),
    [
        ("ab\ncd", 2, 2, 4),
        ("ab\r\ncd\r\n", 2, None, 6),
        ("ab\n", 2, 1, 3),
        ("", 1, None, 0),
        ("a\n", 1, 2, 1),
        ("a\x0cb\nc", 2, 1, 4),
    ],
)
def test_offsets(text: str, line: int, column: int | None, offset: int) -> None:
    assert offset_of(text, Place(Path("a"), line, column)) == offset


def test_column_past_the_end_is_an_error() -> None:
    with pytest.raises(PlaceError, match="no column 3"):
        offset_of("a\n", Place(Path("a"), 1, 3))


def test_a_suggestion_is_explained_and_explained_again_without_an_engine(
    source: Path, homes: Path
) -> None:
    saved, place = homes / "answer.json", f"{source}:1:9"
    done = complete(place, "--explain", "--save", str(saved))
    assert done.returncode == 0, done.stderr
    assert "# Why this suggestion\n\nShown:\n\n```\none two three\n```" in done.stdout
    for part in (
        "## Score",
        "## The model's text",
        "## Trims",
        "## Prompt",
        "3 decoded",
        "prefill ",
    ):
        assert part in done.stdout
    assert saved.stat().st_mode & 0o777 == 0o600
    source.unlink()
    again = complete("--replay", str(saved))
    assert (again.stdout, again.stderr, again.returncode) == (done.stdout, "", 0)
    (parts,) = [json.loads(complete("--replay", str(saved), "--json").stdout)["prompt"]]
    assert parts[-1]["text"] == "quick = "


def test_an_answer_of_which_nothing_is_left_is_explained(source: Path, homes: Path) -> None:
    other = homes / "b.py"
    other.write_text("f(42")
    done = complete(f"{other}:1:3", "--explain")
    assert "trimming left nothing" in done.stdout
    assert (done.stderr, done.returncode) == ("", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a place, such as app.py:12, or --replay FILE"),
        (("--replay", "{homes}/none.json"), "cannot read {homes}/none.json: No such file"),
        (("--replay", "{homes}/a.txt"), "{homes}/a.txt: it is no JSON"),
        (("--replay", "{homes}/b.json"), "{homes}/b.json: it is no saved answer"),
        (("a.py:1", "--replay", "{homes}/a.txt"), "leave the other one out"),
        (("{homes}/a.txt:1", "--save", "{homes}/none/x"), "cannot write {homes}/none/x: No such"),
    ],
)
def test_what_cannot_be_explained_is_named(
    source: Path, homes: Path, arguments: tuple[str, ...], message: str
) -> None:
    (homes / "b.json").write_text("{}")
    done = complete(*(each.format(homes=homes) for each in arguments))
    assert message.format(homes=homes) in done.stderr and "Traceback" not in done.stderr
    assert (done.stdout, done.returncode) == ("", 2)
