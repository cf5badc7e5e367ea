"""What the agent's harness adds to a turn, with a model that answers at once and tools that do
nothing; and eight searches of one turn against one of them, over Django's sources."""

import json
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench.corpora import source_distribution
from bench.measure import p50, p90, row
from composer_lsp.agent.agent import Agent
from composer_lsp.agent.calls import CallRunner
from composer_lsp.agent.events import CallEvent, Event, ResultEvent
from composer_lsp.agent.model import Delta, Message, ToolCall, Usage
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.grep import grep
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths

NUM_TURNS = 40
NUM_RUNS = 5
NUM_CALLS = 4
"""Of a turn: reads of different lines, and one edit."""
NUM_GREPS = 8
NUM_ROUNDS = 11
PATTERNS = (
    "def get_queryset",
    "class Meta",
    r"raise \w+Error",
    "import warnings",
    "ForeignKey",
    r"TODO|FIXME",
    "assertEqual",
    "deprecat",
)


class InstantModel:
    """A `ChatModel` that says, token by token and at once, what a turn is to be."""

    def __init__(self, *, as_text: bool) -> None:
        self._as_text = as_text
        self.num_turns = 0
        self.asked_at: list[float] = []
        self.answered_at: list[float] = []

    async def context_tokens(self) -> int:
        return 1_000_000

    async def num_tokens(self, text: str) -> int:
        return len(text) // 4

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        self.asked_at.append(time.perf_counter())
        turn, self.num_turns = self.num_turns, self.num_turns + 1
        if turn == NUM_TURNS:
            yield Delta(text="Done.", finish_reason="stop")
            self.answered_at.append(time.perf_counter())
            return
        for delta in self._turn(turn):
            yield delta
        yield Delta(finish_reason="tool_calls", usage=Usage())
        self.answered_at.append(time.perf_counter())

    def _turn(self, turn: int) -> list[Delta]:
        said = [Delta(text="word ") for _ in range(60)]
        lines = (1 + (turn * NUM_CALLS + number) % 300 for number in range(NUM_CALLS - 1))
        calls: list[tuple[str, Any]] = [
            ("read_file", {"path": "a.py", "start_line": line, "end_line": line + 100})
            for line in lines
        ]
        edit = {"old": f"x5 = {turn}\n", "new": f"x5 = {turn + 1}\n"}
        calls.append(("edit_file", {"path": "b.py", "edits": [edit]}))
        for index, (name, arguments) in enumerate(calls):
            if self._as_text:
                call = json.dumps({"name": name, "arguments": arguments})
                said += _pieces(f"\n<tool_call>\n{call}\n</tool_call>")
            else:
                said.append(Delta(call_index=index, call_id=f"{turn}.{index}", call_name=name))
                text = json.dumps(arguments)
                said += [
                    Delta(call_index=index, call_arguments=text[at : at + 4])
                    for at in range(0, len(text), 4)
                ]
        return said


async def run() -> None:
    row("", "median", "p90", "asked")
    for name, as_text in (("calls as the server reads them", False), ("calls in the text", True)):
        added = [each for _ in range(NUM_RUNS) for each in await _added_ms(as_text=as_text)]
        row(f"added to a turn, ms: {name}", f"{p50(added):.1f}", f"{p90(added):.1f}", "< 15")
    await _greps()


async def _added_ms(*, as_text: bool) -> list[float]:
    """Of each turn: its time without that of its tools. The model's is in it: the harness takes its
    answer piece by piece."""
    model = InstantModel(as_text=as_text)
    busy = _BusyTime()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        root.mkdir()
        (root / "a.py").write_text("".join(f"line {number}\n" for number in range(500)))
        (root / "b.py").write_text("".join(f"x{number} = 0\n" for number in range(300)))
        agent = Agent(
            workspace=DirectoryWorkspace(Paths([root])),
            model=model,
            transcripts=Path(folder) / "transcripts",
        )
        busy.asked_at = model.asked_at
        done = await agent.run(Request(mode="edit", text="do it"), busy.event)
        assert done.outcome.text == "Done.", done.outcome
    begins = model.asked_at
    return [
        1000 * (after - before - busy.seconds.get(turn, 0.0))
        for turn, (before, after) in enumerate(pairwise(begins))
    ]


class _BusyTime:
    """How long any tool ran, by turn."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.asked_at: list[float] = []
        self._num_open = 0
        self._since = 0.0

    def event(self, event: Event) -> None:
        if isinstance(event, CallEvent):
            if not self._num_open:
                self._since = time.perf_counter()
            self._num_open += 1
        elif isinstance(event, ResultEvent):
            self._num_open -= 1
            if not self._num_open:
                turn = len(self.asked_at) - 1
                spent = time.perf_counter() - self._since
                self.seconds[turn] = self.seconds.get(turn, 0.0) + spent


async def _greps() -> None:
    tree = source_distribution("Django", "5.2.19")
    one: list[_Spent] = []
    eight: list[_Spent] = []
    for attempt in range(NUM_ROUNDS + 1):  # The first warms the disk cache.
        singles = [await _searched((pattern,), tree) for pattern in PATTERNS[:NUM_GREPS]]
        together = await _searched(PATTERNS[:NUM_GREPS], tree)
        if attempt:
            one.append(_Spent(*(sum(each) / len(singles) for each in zip(*singles, strict=True))))
            eight.append(together)
    print()
    row("greps over Django, ms", "median", "processor", "asked")
    for name, spent in (("one (mean of the eight)", one), ("eight in one turn", eight)):
        row(
            name,
            f"{p50([each.wall for each in spent]):.0f}",
            f"{p50([each.cpu for each in spent]):.0f}",
        )
    # Other work on the machine adds to the time more than to the processor's.
    wall = p50([many.wall / single.wall for many, single in zip(eight, one, strict=True)])
    cpu = p50([many.cpu / single.cpu for many, single in zip(eight, one, strict=True)])
    row("eight by one", f"{wall:.2f}", f"{cpu:.2f}", "< 2")


class _Spent(NamedTuple):
    """Milliseconds."""

    wall: float
    cpu: float
    """Of this process and the programs that it ran, by the operating system."""


async def _searched(patterns: Sequence[str], tree: Path) -> _Spent:
    context = ToolContext(workspace=DirectoryWorkspace(Paths([tree])))
    runner = CallRunner([grep], context, lambda event: None)
    calls = [
        ToolCall(id=str(number), name="grep", arguments=json.dumps({"pattern": pattern}))
        for number, pattern in enumerate(patterns)
    ]
    began, cpu = time.perf_counter(), _cpu_s()
    results = await runner.run(calls)
    assert not any(result.is_error for result in results)
    return _Spent(1000 * (time.perf_counter() - began), 1000 * (_cpu_s() - cpu))


def _cpu_s() -> float:
    return sum(os.times()[:4])


def _pieces(text: str) -> list[Delta]:
    return [Delta(text=text[at : at + 4]) for at in range(0, len(text), 4)]
