from pathlib import Path

import pytest

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.model import Reply, Token
from composer_lsp.agent.transcript import Header, Transcript, TranscriptError, new_id

HEADER = Header(id="one", mode="edit", request="do it", roots=("/w",), base_commit="abc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    transcript = Transcript.begin(tmp_path, HEADER)
    transcript.add_message({"role": "user", "content": "do it \udcff"})
    reply = Reply(text="ok", written="ok", tokens=[Token(text="ok", logprob=-0.5, id=7)])
    transcript.add_message(reply.message, reply)
    transcript.add_changes([FileChange(path="a", before=None, after="x")])
    transcript.close()
    return tmp_path / "one.jsonl"


def test_is_read_as_it_was_written(path: Path) -> None:
    read = Transcript.read(path)
    assert read.header.request == "do it"
    assert [each["content"] for each in read.messages] == ["do it \udcff", "ok"]
    assert read.entries[1]["tokens"] == [{"text": "ok", "logprob": -0.5, "id": 7, "is_call": False}]
    assert read.entries[2]["files"] == [
        {"path": "a", "moved_from": None, "before": None, "after": "x"}
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


def test_is_for_the_user_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0


def test_ids_differ() -> None:
    assert len({new_id() for _ in range(20)}) == 20
