"""A user in front of a client: types by the rhythm, takes a suggestion that is what follows."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bench.tab.typing.client import Client, Tokens
from bench.tab.typing.rhythm import BACKSPACE, keys_at
from bench.tab.typing.texts import Typed

REACTION_S = 0.35
"""How long a suggestion is shown before its user takes it; a key that comes earlier is typed."""
MIN_ACCEPTED_CHARS = 3
"""Less is typed rather than looked at."""

Verdict = Literal["accepted", "accepted lines", "typed over", "wrong"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggested:
    """One suggestion as it was first shown."""

    place: int
    """How much was typed by then."""
    text: str
    ms: float | None
    """From the key before it; None for what was there before the first one."""
    verdict: Verdict
    """`accepted lines`: its first lines were. `typed over`: it was right, and the next keys came before
    its user had seen it, or it was not worth a look."""
    num_accepted_chars: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    client: str
    model: str
    path: str
    seed: int
    pace: float
    num_chars: int
    num_keys: int
    """Pressed, those that accept included."""
    suggested: Sequence[Suggested]
    tokens: Tokens


async def type_file(
    client: Client, typed: Typed, *, name: str, model: str, seed: int, pace: float
) -> Session:
    """Types the text by the clock. `name`: of the client, for the record. `pace`: times as slow as the
    rhythm says, for a machine that is as much slower than a user's."""
    await client.open(typed)
    before = await client.tokens()
    user = _User(client, typed.text, pace)
    await user.type_all(seed)
    await client.rest()
    return Session(
        client=name,
        model=model,
        path=typed.path,
        seed=seed,
        pace=pace,
        num_chars=len(typed.text),
        num_keys=user.num_keys,
        suggested=user.suggested,
        tokens=await client.tokens() - before,
    )


def right_part(ghost: str, following: str) -> str:
    """Of a suggestion, what its user takes: all of it, or its first lines as far as they are whole lines
    of what follows."""
    if following.startswith(ghost):
        return ghost
    lines = ghost.split("\n")
    for num_lines in range(len(lines) - 1, 0, -1):
        part = "\n".join(lines[:num_lines])
        if following == part or following.startswith(part + "\n"):
            return part
    return ""


@dataclass(kw_only=True)
class _Seen:
    """A suggestion on the screen."""

    place: int
    text: str
    since: float
    ms: float | None
    taken: int = 0


@dataclass
class _User:
    client: Client
    text: str
    pace: float
    num_keys: int = 0
    suggested: list[Suggested] = field(default_factory=list[Suggested])
    _place: int = 0
    _slip: str = ""
    """Typed wrongly and not yet mended."""
    _pressed: float | None = None
    _seen: _Seen | None = None

    async def type_all(self, seed: int) -> None:
        while self._place < len(self.text):
            for key in keys_at(self.text, self._place, seed):
                if await self._accepts_within(key.pause_s * self.pace):
                    break
                self._press(key.text)
        self._judge_seen()

    def _press(self, text: str) -> None:
        self.num_keys += 1
        self._pressed = time.perf_counter()
        if text == BACKSPACE:
            self._slip = self._slip[:-1]
        elif self._slip or not self.text.startswith(text, self._place):
            self._slip += text
        else:
            self._place += len(text)
        self.client.press(text)
        self._look()

    async def _accepts_within(self, pause_s: float) -> bool:
        """Wait that long, unless a suggestion is taken meanwhile."""
        end = time.perf_counter() + pause_s
        while True:
            self._look()
            now = time.perf_counter()
            wake = end
            if part := self._wanted():
                assert self._seen is not None
                decided = self._seen.since + REACTION_S * self.pace
                if decided <= now and decided <= end:
                    self._accept(part)
                    return True
                wake = min(wake, decided)
            if now >= end:
                return False
            await self._change_or(wake - now)

    async def _change_or(self, limit_s: float) -> None:
        try:
            await asyncio.wait_for(self.client.changed.wait(), max(0.0, limit_s))
            self.client.changed.clear()
        except TimeoutError:
            pass

    def _look(self) -> None:
        """Note what is shown. What goes on from the suggestion seen before is the same one."""
        ghost = "" if self._slip else self.client.ghost
        if not ghost.strip():
            return
        whole = self.text[: self._place] + ghost
        seen = self._seen
        if seen is not None and whole == self.text[: seen.place] + seen.text:
            return
        self._judge_seen()
        now = time.perf_counter()
        ms = None if self._pressed is None else 1000 * (now - self._pressed)
        self._seen = _Seen(place=self._place, text=ghost, since=now, ms=ms)

    def _wanted(self) -> str:
        if self._slip or self._seen is None:
            return ""
        part = right_part(self.client.ghost, self.text[self._place :])
        return part if len(part.strip()) >= MIN_ACCEPTED_CHARS else ""

    def _accept(self, part: str) -> None:
        assert self._seen is not None
        self._seen.taken += len(part)
        self.num_keys += 1
        self._pressed = time.perf_counter()
        self._place += len(part)
        self.client.accept(part)

    def _judge_seen(self) -> None:
        seen = self._seen
        if seen is None:
            return
        self._seen = None
        following = self.text[seen.place :]
        self.suggested.append(
            Suggested(
                place=seen.place,
                text=seen.text,
                ms=seen.ms,
                verdict=_verdict(seen, following),
                num_accepted_chars=seen.taken,
            )
        )


def _verdict(seen: _Seen, following: str) -> Verdict:
    if seen.taken:
        return "accepted" if following.startswith(seen.text) else "accepted lines"
    return "typed over" if right_part(seen.text, following) else "wrong"
