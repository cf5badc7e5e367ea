"""A client of llama.cpp's server with the habits of llama.vim.

Source: https://github.com/ggml-org/llama.vim, `autoload/llama.vim` at ae3cb006491f8b2105b9ca5575039b5d41cb9a8d: its
defaults, when it asks, its cache of answers, the ring of chunks from other places, the speculative request
behind what is shown, and what it hides. The server's options are those of its preset for small models
(`llama-server --fim-qwen-1.5b-default`). What it takes by chance is drawn by a seed here.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.engines import peer_server
from bench.tab.typing.client import Tokens
from bench.tab.typing.ring import Ring
from bench.tab.typing.texts import Typed
from composer_inference.hardware import read_hardware

N_PREFIX = 256
"""Lines before the cursor's, and after it:"""
N_SUFFIX = 64
MAX_LINE_SUFFIX = 8
"""With more characters behind the cursor on its line it does not ask."""
_SERVER_OPTIONS = {"n_ctx": 0, "n_batch": 1024, "n_ubatch": 1024, "n_cache_reuse": 256}
_SAMPLING = {
    "n_predict": 128,
    "stop": [],
    "top_k": 40,
    "top_p": 0.90,
    "samplers": ["top_k", "top_p", "infill"],
    "stream": False,
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "seed": 0,
}
_QUICK_PREDICT_MS = 250
_SPECULATIVE_PREDICT_MS = 1000
_RETRY_S = 0.1
"""While an answer is awaited, none is cancelled and this much later it looks again."""
_MAX_CACHE_KEYS = 250
_NUM_TRIMMED = 3
"""An answer is found again when that many lines have left the prefix."""
_MAX_BACK = 128
"""Characters that may have been typed since an answer in the cache."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Local:
    prefix: str
    middle: str
    suffix: str
    indent: int
    line_suffix: str

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Under which the answer is kept: as it is, and without the first lines."""
        found = [(self.prefix + self.middle, self.suffix)]
        prefix = self.prefix
        for _ in range(_NUM_TRIMMED):
            prefix = prefix.partition("\n")[2]
            if not prefix:
                break
            found.append((prefix + self.middle, self.suffix))
        return found


class LlamaVim:
    """Implements `Client`."""

    def __init__(self, server: httpx.AsyncClient, *, seed: int = 0) -> None:
        self.changed = asyncio.Event()
        self._server = server
        self._chance = random.Random(seed)
        self._ring = Ring(self._chance)
        self._cache: dict[tuple[str, str], str] = {}
        self._before = self._after = ""
        self._path = ""
        self._ghost: list[str] = []
        self._job: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._updates: asyncio.Task[None] | None = None
        self._tokens = Tokens(prefill=0, decoded=0)
        self._moved = 0.0
        self._last_indent = -1

    @property
    def ghost(self) -> str:
        return "\n".join(self._ghost)

    async def open(self, typed: Typed) -> None:
        self._before, self._after, self._path = typed.before, typed.after, typed.path
        for number, other in enumerate(typed.others):
            self._ring.enter(other.split("\n"), 0, f"{number}-{typed.path}")
        while self._ring.take_queued():
            await self._warm_ring()
        self._updates = asyncio.create_task(self._update_ring())
        self._ask([])
        await self.rest()

    def press(self, text: str) -> None:
        if text:
            self._before += text
        else:
            self._before = self._before[:-1]
        self._on_move()

    def accept(self, text: str) -> None:
        self._before += text
        self._on_move()

    async def tokens(self) -> Tokens:
        return self._tokens

    async def rest(self) -> None:
        while self._job is not None or self._timer is not None:
            if self._job is not None:
                await self._job
            else:
                await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._updates, self._job):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    # When it asks ---------------------------------------------------------------------------------

    def _on_move(self) -> None:
        self._moved = time.monotonic()
        self._show([])
        self._try_hint()
        self._ask([])

    def _ask(self, previous: Sequence[str]) -> None:
        """`previous`: a suggestion, as if it had been accepted."""
        if self._job is not None:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_RETRY_S, self._ask_again, previous)
            return
        local = self._local(previous)
        if len(local.line_suffix) > MAX_LINE_SUFFIX or any(
            key in self._cache for key in local.keys
        ):
            return
        self._last_indent = local.indent
        lines, number = self._lines()
        self._ring.evict_like(lines, number)
        self._job = asyncio.create_task(self._request(local, is_speculative=bool(previous)))
        self._ring.moved(lines, number, self._path)

    def _ask_again(self, previous: Sequence[str]) -> None:
        self._timer = None
        self._ask(previous)

    async def _request(self, local: _Local, *, is_speculative: bool) -> None:
        limit_ms = _SPECULATIVE_PREDICT_MS if is_speculative else _QUICK_PREDICT_MS
        body = _SAMPLING | {
            "input_prefix": local.prefix,
            "input_suffix": local.suffix,
            "input_extra": self._ring.extra(),
            "prompt": local.middle,
            "n_indent": local.indent,
            "t_max_predict_ms": limit_ms,
        }
        try:
            content = (await self._post(body))["content"]
        finally:
            self._job = None
        for key in local.keys:
            self._keep(key, content)
        if not self.ghost.strip():
            self._try_hint()

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._server.post("/infill", json=body)
        response.raise_for_status()
        answer = response.json()
        timings = answer.get("timings", {})
        self._tokens = Tokens(
            prefill=self._tokens.prefill + timings.get("prompt_n", 0),
            decoded=self._tokens.decoded + timings.get("predicted_n", 0),
        )
        return answer

    def _keep(self, key: tuple[str, str], content: str) -> None:
        if len(self._cache) >= _MAX_CACHE_KEYS:
            del self._cache[self._chance.choice(list(self._cache))]
        self._cache[key] = content

    async def _update_ring(self) -> None:
        while True:
            await asyncio.sleep(Ring.UPDATE_S)
            is_resting = time.monotonic() - self._moved >= Ring.REST_S
            if is_resting and self._ring.take_queued():
                await self._warm_ring()

    async def _warm_ring(self) -> None:
        await self._post(
            {
                "input_prefix": "",
                "input_suffix": "",
                "input_extra": self._ring.extra(),
                "prompt": "",
                "n_predict": 0,
                "samplers": [],
                "cache_prompt": True,
                "t_max_predict_ms": 1,
            }
        )

    # What it tells the model ----------------------------------------------------------------------

    def _lines(self) -> tuple[list[str], int]:
        """The document's, and the cursor's number."""
        return (self._before + self._after).split("\n"), self._before.count("\n")

    def _local(self, previous: Sequence[str]) -> _Local:
        lines, number = self._lines()
        head, tail = self._before.rpartition("\n")[2], self._after.partition("\n")[0]
        above = lines[max(0, number - N_PREFIX) : number]
        indent = len(lines[number]) - len(lines[number].lstrip(" \t"))
        if previous:
            *taken, last = [lines[number] + previous[0], *previous[1:]]
            above, head, tail, indent = above + taken, last, "", self._last_indent
        elif not lines[number].strip():
            head, tail, indent = "", "", 0
        return _Local(
            prefix="\n".join(above) + "\n",
            middle=head,
            suffix="\n".join([tail, *lines[number + 1 : number + 1 + N_SUFFIX]]) + "\n",
            indent=indent,
            line_suffix=tail,
        )

    # What it shows --------------------------------------------------------------------------------

    def _try_hint(self) -> None:
        content = self._cached(self._local([]))
        if content is None:
            return
        self._show(self._rendered(content))
        if self._ghost:
            self._ask(self._ghost)

    def _cached(self, local: _Local) -> str | None:
        text = local.prefix + local.middle
        if (text, local.suffix) in self._cache:
            return self._cache[text, local.suffix]
        best: str | None = None
        for num_typed in range(1, min(_MAX_BACK, len(text)) + 1):
            content = self._cache.get((text[:-num_typed], local.suffix))
            if content is None or not content.startswith(text[-num_typed:]):
                continue
            rest = content[num_typed:]
            if rest and (best is None or len(rest) > len(best)):
                best = rest
        return best

    def _rendered(self, content: str) -> list[str]:
        """The answer's lines at the cursor; none where they say what stands there already."""
        lines, number = self._lines()
        said = content.split("\n")
        while said and not said[-1]:
            said.pop()
        if not said:
            return []
        head, tail = self._before.rpartition("\n")[2], self._after.partition("\n")[0]
        if not lines[number].strip():
            indent = len(said[0]) - len(said[0].lstrip())
            said[0] = said[0][min(indent, len(lines[number])) :]
        if _repeats(said, head, tail, lines, number) or not "".join(said).strip():
            return []
        return said

    def _show(self, ghost: list[str]) -> None:
        if ghost != self._ghost:
            self._ghost = ghost
            self.changed.set()


@asynccontextmanager
async def llama_vim(scratch: Path, model: str) -> AsyncGenerator[LlamaVim]:
    """With a server of its own."""
    threads = read_hardware().num_usable_cores
    async with peer_server(scratch, threads, model, options=_SERVER_OPTIONS) as server:
        client = LlamaVim(server)
        try:
            yield client
        finally:
            await client.close()


def _repeats(said: Sequence[str], head: str, tail: str, lines: Sequence[str], number: int) -> bool:
    """Whether an answer tells the text behind the cursor again, as its client finds out."""
    if said[0] == "" and list(said[1:]) == list(lines[number + 1 : number + len(said)]):
        return True
    if list(said) == [tail]:
        return True
    below = number + 1
    while below < len(lines) - 1 and not lines[below].strip():
        below += 1
    if below >= len(lines) or head + said[0] != lines[below]:
        return False
    following = lines[below + 1 : below + len(said)]
    if len(said) == 2:
        return bool(following) and following[0].startswith(said[1])
    return len(said) == 1 or list(said[1:]) == list(following)
