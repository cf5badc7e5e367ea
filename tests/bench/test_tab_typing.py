"""How `bench.tab typing` types, and what it says of a client; the clock is never looked at."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tab.records import Records
from bench.tab.typing.client import Tokens
from bench.tab.typing.report import FIGURES
from bench.tab.typing.rhythm import BACKSPACE, keys_at, step_at
from bench.tab.typing.simulation import Session, Suggested, Verdict, right_part, type_file
from bench.tab.typing.texts import Typed, draw

CODE = st.text(alphabet="ab _(\n\t=", min_size=1, max_size=60)


def typed_by_keys(text: str, seed: int) -> str:
    typed = ""
    while len(typed) < len(text):
        for key in keys_at(text, len(typed), seed):
            typed = typed[:-1] if key.text == BACKSPACE else typed + key.text
            assert key.pause_s > 0
    return typed


@given(CODE, st.integers(0, 99))
def test_the_keys_type_the_text(text: str, seed: int) -> None:
    assert typed_by_keys(text, seed) == text


def test_a_place_has_the_same_keys_each_time_and_some_slips_are_mended() -> None:
    text = "letters of a long text " * 40
    keys = [list(keys_at(text, place, 7)) for place in range(len(text))]
    assert keys == [list(keys_at(text, place, 7)) for place in range(len(text))]
    slips = [of for of in keys if len(of) > 1]
    assert 0 < len(slips) < len(text) / 20
    assert all(of[-2].text == BACKSPACE for of in slips)


def test_enter_brings_the_indentation_along() -> None:
    assert step_at("if x:\n    y\n", 5) == "\n    "
    assert step_at("if x:\n\n    y", 5) == "\n"


def test_a_part_of_a_file_is_taken_out(tmp_path: Path) -> None:
    lines = [f"    line {number}\n" for number in range(100)]
    (tmp_path / "b.py").write_text("beside")
    (tmp_path / "a.py").write_text("def f():\n" + "".join(lines))
    typed = draw(tmp_path, "a.py", num_chars=50, seed=1)
    assert typed.before + typed.text + typed.after == (tmp_path / "a.py").read_text()
    assert typed.before.endswith("\n    ")
    assert 50 <= len(typed.text) + 4 <= 70
    assert typed.after.startswith("\n")
    assert (typed.language_id, typed.others) == ("python", ("beside",))
    assert typed != draw(tmp_path, "a.py", num_chars=50, seed=2)


def test_a_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="too short"):
        draw(tmp_path, "a.py", num_chars=50, seed=1)


@pytest.mark.parametrize(
    ("ghost", "following", "part"),
    [
        ("x + 1", "x + 1\nreturn", "x + 1"),
        ("x + 2", "x + 1", ""),
        ("x + 1\nreturn 2", "x + 1\nreturn 1", "x + 1"),
        ("a\nb\nd", "a\nb\nc", "a\nb"),
        ("x\ny", "xy", ""),
        ("x\ny", "x", "x"),
    ],
)
def test_what_is_taken_of_a_suggestion(ghost: str, following: str, part: str) -> None:
    assert right_part(ghost, following) == part


class Scripted:
    """Implements `Client`: shows, at a place of the text, what it was told to."""

    def __init__(self, ghosts: dict[int, str]) -> None:
        self.changed = asyncio.Event()
        self.text = ""
        self.ghost = ""
        self.pressed: list[str] = []
        self._ghosts = ghosts

    async def open(self, typed: Typed) -> None:
        self.ghost = self._ghosts.get(0, "")

    def press(self, text: str) -> None:
        self.pressed.append(text)
        self._set(self.text + text if text else self.text[:-1], text)

    def accept(self, text: str) -> None:
        self._set(self.text + text, text)

    async def tokens(self) -> Tokens:
        return Tokens(prefill=10 * len(self.text), decoded=len(self.text))

    async def rest(self) -> None:
        pass

    def _set(self, text: str, typed: str) -> None:
        self.text = text
        known = self.ghost[len(typed) :] if typed and self.ghost.startswith(typed) else ""
        self.ghost = self._ghosts.get(len(text), known)
        self.changed.set()


def session_of(text: str, ghosts: dict[int, str]) -> tuple[Session, Scripted]:
    client = Scripted(ghosts)
    typed = Typed(path="a.py", language_id="python", before="", text=text, after="\n")
    typing = type_file(client, typed, name="scripted", model="m", seed=3, pace=0)
    return asyncio.run(typing), client


def test_a_right_suggestion_is_taken_and_the_rest_typed() -> None:
    session, client = session_of("x = call(1)\ny", {4: "call(1)"})
    assert client.text == "x = call(1)\ny"
    (suggested,) = session.suggested
    assert (suggested.place, suggested.text, suggested.verdict) == (4, "call(1)", "accepted")
    assert suggested.num_accepted_chars == len("call(1)")
    assert session.num_keys == len("x = ") + 1 + len("\ny")
    assert session.tokens == Tokens(prefill=130, decoded=13)


def test_of_a_suggestion_that_goes_wrong_its_right_lines_are_taken() -> None:
    session, client = session_of("a = 1\nb = 2", {2: "= 1\nb = 3"})
    assert client.text == "a = 1\nb = 2"
    (suggested,) = session.suggested
    assert (suggested.verdict, suggested.num_accepted_chars) == ("accepted lines", 3)


def test_wrong_ones_and_short_ones_are_typed_over() -> None:
    session, _ = session_of("abcdef gh", {1: "xyz", 7: "gh"})
    assert [each.verdict for each in session.suggested] == ["wrong", "typed over"]
    assert session.num_keys >= len("abcdef gh")


def test_what_is_typed_through_is_one_suggestion() -> None:
    session, _ = session_of("ab", {0: "ab"})
    assert [(each.text, each.ms) for each in session.suggested] == [("ab", None)]


def suggested(verdict: Verdict, num_accepted_chars: int, ms: float | None) -> Suggested:
    return Suggested(
        place=0, text="x", ms=ms, verdict=verdict, num_accepted_chars=num_accepted_chars
    )


def session(*suggestions: Suggested) -> Session:
    return Session(
        client="c",
        model="m",
        path="p",
        seed=1,
        pace=1,
        num_chars=100,
        num_keys=80,
        suggested=suggestions,
        tokens=Tokens(prefill=60, decoded=40),
    )


def test_the_figures_of_a_client() -> None:
    sessions = [
        session(suggested("accepted", 20, 100.0), suggested("wrong", 0, None)),
        session(suggested("accepted lines", 5, 300.0), suggested("typed over", 0, 200.0)),
    ]
    found = {name: figure(sessions) for name, figure in FIGURES.items()}
    assert found["characters not typed"] == 25 / 200
    assert found["keys per character"] == 0.8
    assert found["suggestions per 100 characters"] == 2
    assert found["of them accepted"] == 0.5
    assert found["of them wrong"] == 0.25
    assert found["time to ghost, p50 ms"] == 200
    assert found["engine tokens per accepted character"] == 8


def test_a_client_that_showed_nothing_has_figures_too() -> None:
    found = {name: figure([session()]) for name, figure in FIGURES.items()}
    assert found["characters not typed"] == found["of them wrong"] == 0
    assert found["engine tokens per accepted character"] == float("inf")


def test_sessions_are_found_again(tmp_path: Path) -> None:
    kept = session(suggested("accepted", 20, None))
    records = Records(Session, tmp_path / "some.jsonl")
    assert "first version-m/p" not in records
    records.add("first version-m/p", kept)
    again = Records(Session, tmp_path / "some.jsonl")
    found = again["first version-m/p"]
    assert (found.tokens, list(found.suggested)) == (kept.tokens, list(kept.suggested))
    assert again.of(["another", "first version-m/p"]) == [found]
    assert "a" not in Records(Session, None)
