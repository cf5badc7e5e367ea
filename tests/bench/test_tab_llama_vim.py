"""The peer's habits, in front of a server that answers what it is told to."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from bench.tab.typing.client import Tokens
from bench.tab.typing.llama_vim import LlamaVim
from bench.tab.typing.ring import Ring
from bench.tab.typing.texts import Typed

JsonObject = dict[str, Any]


class Server:
    """What was asked, and a gate that holds answers back."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.asked: list[JsonObject] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content))
        await self.gate.wait()
        timings = {"prompt_n": 10, "predicted_n": 2}
        return httpx.Response(200, json={"content": self.content, "timings": timings})


def run(
    content: str,
    before: str,
    after: str,
    use: Callable[[LlamaVim, Server], Coroutine[Any, Any, None]],
    *,
    others: tuple[str, ...] = (),
) -> None:
    async def main() -> None:
        server = Server(content)
        transport = httpx.MockTransport(server.answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://peer") as http:
            client = LlamaVim(http)
            typed = Typed(
                path="a.py",
                language_id="python",
                before=before,
                text="",
                after=after,
                others=others,
            )
            await client.open(typed)
            try:
                await use(client, server)
            finally:
                await client.close()

    asyncio.run(main())


def test_it_asks_with_its_windows_and_shows_the_answer() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        first = server.asked[0]
        assert first["input_prefix"] == "".join(f"line {number}\n" for number in range(44, 300))
        assert first["prompt"] == "    x = "
        assert first["input_suffix"] == "\n" + "".join(f"{number}\n" for number in range(64))
        assert (first["n_predict"], first["n_indent"], first["t_max_predict_ms"]) == (128, 4, 250)
        assert client.ghost == "call(1)"
        assert await client.tokens() == Tokens(prefill=20, decoded=4)

    before = "".join(f"line {number}\n" for number in range(300)) + "    x = "
    after = "\n" + "".join(f"{number}\n" for number in range(70))
    run("call(1)\n", before, after, use)


def test_behind_what_it_shows_it_asks_once_more_as_if_that_were_taken() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        _, speculative = server.asked
        assert speculative["prompt"] == "x = call(1)"
        assert speculative["t_max_predict_ms"] == 1000
        client.accept("call(1)")
        await client.rest()
        assert len(server.asked) == 3
        assert server.asked[2]["prompt"] == "x = call(1)call(1)"

    run("call(1)", "x = ", "\n", use)


def test_what_is_typed_through_comes_from_its_cache() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        client.press("c")
        assert client.ghost == "all(1)"
        client.press("a")
        assert client.ghost == "ll(1)"
        client.press("x")
        assert client.ghost == ""
        client.press("")
        assert client.ghost == "ll(1)"

    run("call(1)", "x = ", "\n", use)


def test_it_waits_for_its_answer_and_cancels_none() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        server.gate.clear()
        num_before = len(server.asked)
        for char in "abc":
            client.press(char)
            await asyncio.sleep(0)
        while len(server.asked) == num_before:
            await asyncio.sleep(0)
        server.gate.set()
        await client.rest()
        assert [each["prompt"] for each in server.asked[num_before:]][:2] == ["x = a", "x = abc"]

    run("", "x = ", "\n", use)


@pytest.mark.parametrize(
    ("content", "before", "after", "ghost"),
    [
        ("    y = 1\n", "def f():\n    ", "\n", "y = 1"),
        ("\n    return x", "    x = 1", "\n    return x\n", ""),
        (")", "f(", ")\n", ""),
        ("    return x", "", "\n    return x\n    more\n", ""),
        ("  \n", "x = ", "\n", ""),
        ("1)", "f(", ")\n", "1)"),
    ],
)
def test_what_it_shows_of_an_answer(content: str, before: str, after: str, ghost: str) -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        assert client.ghost == ghost

    run(content, before, after, use)


def test_with_much_text_behind_the_cursor_it_does_not_ask() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        assert server.asked == []
        client.press("x")
        await client.rest()
        assert server.asked == []

    run("a", "f(", "123456789)\n", use)


def test_files_that_were_open_are_told() -> None:
    async def use(client: LlamaVim, server: Server) -> None:
        ring, first = server.asked[0], server.asked[1]
        assert (ring["n_predict"], ring["prompt"]) == (0, "")
        assert [each["text"] for each in first["input_extra"]] == ["a\nb\nc\n"]

    run("", "x = ", "\n", use, others=("a\nb\nc",))


def chunk(first: int, num_lines: int) -> list[str]:
    return [f"line {number}" for number in range(first, first + num_lines)]


def texts(ring: Ring) -> list[str]:
    return [each["text"].split("\n")[0] for each in ring.extra()]


def test_the_ring_holds_sixteen_the_oldest_go_first() -> None:
    ring = Ring(random.Random(0))
    for number in range(20):
        ring.enter(chunk(100 * number, 20), 0, "a")
        assert ring.take_queued()
    assert not ring.take_queued()
    assert texts(ring) == [f"line {100 * number}" for number in range(4, 20)]


def test_the_ring_takes_no_chunk_twice_and_none_of_two_lines() -> None:
    ring = Ring(random.Random(0))
    ring.enter(chunk(0, 20), 0, "a")
    ring.enter(chunk(0, 20), 0, "a")
    ring.enter(chunk(50, 2), 0, "a")
    assert ring.take_queued()
    assert not ring.take_queued()


def test_chunks_like_the_text_around_the_cursor_leave_but_the_first() -> None:
    ring = Ring(random.Random(0))
    for first in (0, 100, 200):
        ring.enter(chunk(first, 20), 0, "a")
        ring.take_queued()
    ring.evict_like(chunk(100, 20), 10)
    assert texts(ring) == ["line 0", "line 200"]


def test_a_cursor_that_moved_far_picks_from_beyond_the_windows() -> None:
    ring = Ring(random.Random(0))
    ring.moved(chunk(0, 1000), 500, "a")
    ring.moved(chunk(0, 1000), 520, "a")
    while ring.take_queued():
        pass
    first, second = (int(each.removeprefix("line ")) for each in texts(ring))
    assert 0 <= first <= 244
    assert 564 <= second <= 628
