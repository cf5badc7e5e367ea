import json
import os
import sys
from pathlib import Path
from typing import IO

import pytest

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.model import Reply, Token
from composer_lsp.agent.transcript import Header, Transcript, TranscriptError, new_id

HEADER = Header(id="one", mode="edit", request="do it", roots=("/w",), base_commit="abc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    transcript = Transcript.begin(tmp_path, HEADER)
    transcript.add_message({"role": "user", "content": "do it \udcff"})
    reply = Reply(text="ok", written="ok", tokens=[Token(text="ok", logprob=-0.5, id=7)])
    transcript.add_message(reply.message, reply)
    like = TextFile(text="", encoding="utf-16-le", bom=b"\xff\xfe")
    transcript.add_changes([FileChange(path="a", before=None, after="x", like=like, mode=0o755)])
    transcript.close()
    return tmp_path / "one.jsonl"


def test_is_read_as_it_was_written(path: Path) -> None:
    read = Transcript.read(path)
    assert read.header.request == "do it"
    assert [each["content"] for each in read.messages] == ["do it \udcff", "ok"]
    assert read.entries[1]["tokens"] == [{"text": "ok", "logprob": -0.5, "id": 7, "is_call": False}]
    assert read.entries[2]["files"] == [
        {
            **{"path": "a", "moved_from": None, "before": None, "after": "x"},
            **{"like": ["utf-16-le", "fffe"], "mode": 0o755, "link": None},
        }
    ]


def test_a_line_cut_by_a_kill_is_left_out_and_written_over(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"kind": "mess')
    read = Transcript.read(path)
    read.reopen()
    read.add_message({"role": "user", "content": "go on"})
    read.close()
    assert [each["content"] for each in Transcript.read(path).messages][-1] == "go on"


@pytest.mark.parametrize("text", ["", "[]\n", "{\n", '{"format": 99}\n'])
def test_what_is_none_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(TranscriptError, match=r"x\.jsonl is no transcript"):
        Transcript.read(tmp_path / "x.jsonl")


def message(**fields: object) -> dict[str, object]:
    return {"kind": "message", "message": fields}


FILE = {"path": "a", "moved_from": None, "before": None, "after": "x"}
STATE: dict[str, object] = {"kind": "state", "reads": {}, "commands": [], "plan": []}
CALL = {"id": "1", "function": {"name": "grep", "arguments": "{}"}}
READ = {"lines": [[1, 2]], "num_lines": 2, "digest": None}


@pytest.mark.parametrize(
    "fields",
    [
        {"id": None},
        {"mode": 7},
        {"request": []},
        {"roots": "/"},
        {"roots": [1]},
        {"began": "x"},
        {"began": 1e20},
        {"began": float("nan")},
        {"dirty_diff": None},
    ],
    ids=str,
)
def test_a_header_that_is_damaged_is_told(path: Path, fields: dict[str, object]) -> None:
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(header), **fields}), *lines, ""]))
    with pytest.raises(TranscriptError, match="is damaged: line 1 is no header of a run"):
        Transcript.read(path)


DAMAGED: list[dict[str, object]] = [
    {},
    {"kind": 1},
    {"kind": "message"},
    message(role="user"),
    message(role="clown", content=""),
    message(role="tool", content=""),
    message(role="assistant", content=None),
    message(role="assistant", tool_calls=[{"id": "1"}]),
    message(role="assistant", content="", tool_calls={}),
    {"kind": "context", "messages": [{}]},
    {"kind": "changes", "files": [{}]},
    {"kind": "changes", "files": [{**FILE, "after": 1}]},
    {"kind": "changes", "files": [{**FILE, "like": ["utf-8", "zz"]}]},
    {"kind": "changes", "files": [{**FILE, "mode": "x"}]},
    {"kind": "state", "commands": [], "plan": []},
    {**STATE, "reads": {"a": {**READ, "lines": [[1]]}}},
    {**STATE, "reads": {"a": {**READ, "lines": 1}}},
    {**STATE, "commands": [{"line": "pytest"}]},
    {**STATE, "commands": [{"line": "pytest", "exit_code": 0, "other": 1}]},
    {**STATE, "plan": [{"text": "one", "state": "lost"}]},
    {"kind": "verdict", "path": "a", "accepted": 1, "rejected": []},
    {"kind": "end", "status": "finished", "text": "", "problems": [1]},
]


@pytest.mark.parametrize("entry", DAMAGED, ids=str)
def test_a_line_that_is_damaged_is_told(path: Path, entry: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    with pytest.raises(TranscriptError, match="is damaged: line 5 lacks what its kind has"):
        Transcript.read(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "new", "what": 1},
        message(role="assistant", content="", tool_calls=[CALL]),
        message(role="assistant", tool_calls=[CALL]),
        message(role="tool", tool_call_id="1", content=""),
        {"kind": "changes", "files": [FILE, {**FILE, "like": ["utf-8", "efbbbf"], "mode": 0o644}]},
        {**STATE, "reads": {"a": READ}, "commands": [{"line": "make", "exit_code": None}]},
        {**STATE, "plan": [{"text": "one", "state": "done"}]},
    ],
    ids=str,
)
def test_a_line_that_is_whole_is_read(path: Path, entry: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    assert Transcript.read(path).entries[-1] == entry


def test_what_is_nested_too_deep_is_told(path: Path) -> None:
    with path.open("a") as file:
        file.write("[" * 100_000 + "\n")
    with pytest.raises(TranscriptError, match="is no transcript: maximum recursion depth"):
        Transcript.read(path)


def test_is_for_the_user_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0


def test_ids_differ() -> None:
    assert len({new_id() for _ in range(20)}) == 20


# --- Where it cannot be written -----------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_on_a_full_disk_it_goes_on_in_memory(path: Path) -> None:
    told: list[str] = []
    transcript = Transcript.read(path)
    transcript.on_loss = told.append
    transcript.file = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115
    transcript.add("resumed", request="a")
    transcript.add("resumed", request="b")
    transcript.close()
    transcript.add_verdict("a", accepted=[0], rejected=[])
    assert [entry["kind"] for entry in transcript.entries[-3:]] == ["resumed", "resumed", "verdict"]
    (text,) = told
    assert text.startswith(f"The transcript cannot be kept ({path}: No space left on device).")


def test_below_a_file_it_goes_on_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    transcript = Transcript.begin(tmp_path / "file" / "folder", HEADER, told.append)
    transcript.add_message({"role": "user", "content": "do it"})
    transcript.close()
    assert (len(transcript.messages), len(told), transcript.path) == (1, 1, None)


def test_one_that_never_got_its_header_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, mode: str, encoding: str) -> IO[str]:
        os.close(descriptor)
        return Path("/dev/full").open(mode, encoding=encoding)

    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    monkeypatch.setattr(os, "fdopen", full)
    assert Transcript.begin(tmp_path, HEADER, lambda text: None).path is None
    assert list(tmp_path.iterdir()) == []


# --- One run at a time --------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="no locks")
def test_one_that_is_being_written_is_not_written_by_another(tmp_path: Path) -> None:
    first = Transcript.begin(tmp_path, HEADER)
    second = Transcript.read(tmp_path / "one.jsonl")
    with pytest.raises(TranscriptError, match="the run one is going on elsewhere"):
        second.reopen()
    first.add_message({"role": "user", "content": "do it"})
    first.close()
    second.reopen()
    assert second.messages == first.messages  # what was added since it was read
    with pytest.raises(TranscriptError, match="is going on elsewhere"):
        first.add_verdict("a", accepted=[0], rejected=[])
    second.close()
    first.add_verdict("a", accepted=[0], rejected=[])


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_tells_a_run_that_goes_on_from_one_that_was_cut_off(path: Path) -> None:
    def status() -> str:
        return Transcript.read(path).status

    assert status() == "cut off"
    writing = Transcript.read(path)
    with writing.held():
        assert status() == "running"
        writing.add("end", status="finished", text="", problems=[])
        assert status() == "finished"
    assert status() == "finished"
    with writing.held():
        writing.add("resumed", request="And?")
        assert status() == "running"
    assert status() == "cut off"
