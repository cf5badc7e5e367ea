"""SIGKILL at any moment: the store opens, has what it acknowledged, and mixes no generations."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from composer_index.store.records import Filter, StoreEvent
from composer_index.store.store import Store
from tests.composer_index.store.building import one_hot, texts_in

REPOSITORY = Path(__file__).parents[3]


def start_writer(location: Path, note: Path, seed: int) -> subprocess.Popen[str]:
    note.touch()
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "index")])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.composer_index.store.writer", location, note, str(seed)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def acknowledged_in(note: Path) -> dict[str, tuple[int, int]]:
    """The newest acknowledged generation of each file, and its number of chunks."""
    newest: dict[str, tuple[int, int]] = {}
    for line in note.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            path, generation, num_chunks = line.split("\t")
            newest[path] = (int(generation), int(num_chunks))
    return newest


def check(store: Store, newest: dict[str, tuple[int, int]]) -> None:
    held = texts_in(store)
    for path, (generation, num_chunks) in newest.items():
        generations = {int(text.split()[2]) for text in held[path]}
        assert len(generations) == 1, f"{path} mixes {generations}"
        assert generations >= {generation} or min(generations) > generation, f"{path} was lost"
        if generations == {generation}:
            assert len(held[path]) == num_chunks
    assert store.counts().num_chunks == sum(map(len, held.values())), "rows that no file has"
    assert store.unembedded("small") == []
    assert store.match_words(["text"], 5, Filter())
    assert store.chunks_at(store.nearest("small", one_hot(0)[0], 5, Filter()))


def kill_and_reopen(tmp_path: Path, times: int, seed: int) -> None:
    location, moments = tmp_path / "store", random.Random(seed)
    events: list[StoreEvent] = []
    newest: dict[str, tuple[int, int]] = {}
    for turn in range(times):
        note = tmp_path / f"note{turn}"
        writer = start_writer(location, note, turn)
        time.sleep(moments.uniform(0.05, 3))
        writer.kill()
        writer.wait()
        # Generations begin anew with each writer: what earlier ones left counts as older.
        found = acknowledged_in(note)
        newest = dict.fromkeys(newest, (0, 0)) | found
        store = Store.open(location, events.append)
        try:
            assert store.is_writer, "the lock outlives its holder"
            held = texts_in(store)
            for path, at in found.items():
                assert held[path], f"{path} of {at} is empty"
            check(store, found)
            assert newest.keys() <= held.keys()
            store.clear() if turn % 5 == 4 else None
            newest = {} if turn % 5 == 4 else newest
        finally:
            store.close()
    assert events == [], "nothing was rebuilt"


def test_survives_sigkill_three_times(tmp_path: Path):
    kill_and_reopen(tmp_path, 3, seed=1)


@pytest.mark.soak
def test_survives_sigkill_fifty_times(tmp_path: Path):
    kill_and_reopen(tmp_path, 50, seed=2)


def test_a_reader_goes_on_and_takes_over_when_the_writer_dies(tmp_path: Path):
    writer = start_writer(tmp_path / "store", tmp_path / "note", 7)
    reader = Store.open(tmp_path / "store")
    try:
        assert not reader.is_writer
        deadline = time.monotonic() + 30
        while not acknowledged_in(tmp_path / "note") and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(20):
            assert reader.match_words(["text"], 5, Filter())
            assert not reader.try_become_writer()
        writer.kill()
        writer.wait()
        assert reader.try_become_writer()
        check(reader, acknowledged_in(tmp_path / "note"))
    finally:
        writer.kill()
        writer.wait()
        reader.close()
