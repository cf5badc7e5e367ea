"""What is given up for time, and how it is told."""

from pathlib import Path

import pytest

from composer_lsp.completion.request import Suggestion
from composer_lsp.completion.speed import Speed
from composer_lsp.config import TabSettings
from composer_lsp.server.tab_pace import TabPace, read_measured

SMALL, LARGE = "small", "large"


class Told:
    def __init__(self, smaller: str | None = None) -> None:
        self.notes: list[str] = []
        self.asked: list[str] = []
        self._smaller = smaller
        self.speed = Speed()
        self.speed.observe({"num_prefill_tokens": 80, "prefill_ms": 1000})
        self.pace = TabPace(self.speed, self.notes.append, self._find)

    def _find(self, model: str) -> str | None:
        self.asked.append(model)
        return self._smaller

    def see(self, total: float, prefill: float, tab: TabSettings) -> bool:
        """Twenty suggestions of so many milliseconds."""
        timings = {"total": total, "prefill": prefill, "debounce": 0.0, "first_token": prefill}
        suggestion = Suggestion(text="x", start=0, end=0, timings=timings)
        return [self.pace.observe(suggestion, tab, LARGE) for _ in range(20)][-1]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(tmp_path))
    return tmp_path


def test_shorter_prompts_first_and_the_user_is_told() -> None:
    told, tab = Told(SMALL), TabSettings(context_tokens=1000)
    assert not told.see(1200, 1000, tab)
    cut = told.pace.cut(tab)
    assert (cut.context_tokens, cut.model) == (500, "auto")
    [note] = told.notes
    assert note == "Suggestions took 1.2 s here: prompts hold 500 tokens of the file, not 1000"
    measured = read_measured()
    assert measured is not None
    assert (measured.model, measured.tokens_per_s, measured.note) == (LARGE, 80, note)


def test_a_smaller_model_where_writing_takes_long() -> None:
    told, tab = Told(SMALL), TabSettings()
    assert told.see(2000, 100, tab)
    assert told.pace.cut(tab).model == SMALL
    assert told.asked == [LARGE]
    assert "small answers in place of large" in told.notes[-1]
    told.pace.forget()
    assert (told.pace.cut(tab), told.notes[-1]) == (tab, "")


@pytest.mark.parametrize(
    ("smaller", "tab"),
    [
        (None, TabSettings()),
        (SMALL, TabSettings(model=LARGE)),
        (SMALL, TabSettings(url="http://127.0.0.1:1/v1")),
    ],
)
def test_a_model_that_the_user_chose_stays_and_the_way_out_is_told(
    smaller: str | None, tab: TabSettings
) -> None:
    told = Told(smaller)
    assert not told.see(2000, 100, tab)
    assert told.pace.cut(tab) == tab
    assert "composer.tab.model" in told.notes[-1]


def test_in_time_again() -> None:
    told, tab = Told(), TabSettings()
    told.see(1200, 1000, tab)
    told.see(300, 100, tab)
    assert (told.pace.cut(tab), told.notes[-1]) == (tab, "")


def test_suggestions_from_memory_are_not_timed() -> None:
    told = Told()
    suggestion = Suggestion(text="x", start=0, end=0, timings={"total": 0.1})
    for _ in range(100):
        assert not told.pace.observe(suggestion, TabSettings(), LARGE)
    assert told.notes == []


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"model": 1}', '{"model": "m", "p50_ms": []}'])
def test_what_cannot_be_read_is_nothing(state: Path, kept: str) -> None:
    (state / "tab.json").write_text(kept)
    assert read_measured() is None


def test_a_folder_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COMPOSER_STATE_DIR", str(tmp_path / "file"))
    told = Told()
    told.see(1200, 1000, TabSettings())
    assert told.notes
