"""One answer of several choices, which are decoded at the same time and told as they come."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from composer_inference.api.answers import timings_object, usage
from composer_inference.api.streaming import Events
from composer_inference.backends.base import GenerateRequest, Timings


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoicePart:
    """A piece of one choice; the last one has a finish reason."""

    choice: dict[str, Any]
    """As an event has it, its `index` and `finish_reason` among the fields."""
    timings: Timings
    """Of this choice so far."""
    prompt_timings: Timings | None = None
    """Those that tell the prompt's length, if not the same."""
    weights_version: int | None = None
    """On the last part, of a backend that counts them."""

    @property
    def is_last(self) -> bool:
        return self.choice["finish_reason"] is not None


Parts = AsyncGenerator[ChoicePart, None]


class Totals:
    """What the ends of all choices sum up to."""

    def __init__(self, *, drafts: bool | None) -> None:
        """`drafts`: whether the model was given the client's prediction; None: there was none."""
        self._drafts = drafts
        self._ends: list[ChoicePart] = []

    @property
    def num_ended(self) -> int:
        return len(self._ends)

    def add(self, end: ChoicePart) -> None:
        self._ends.append(end)

    @property
    def timings(self) -> Timings:
        return sum((end.timings for end in self._ends), Timings())

    def usage(self) -> dict[str, Any]:
        """The prompt counts once, as cached as it was for the choice that came first."""
        prompts = [end.prompt_timings or end.timings for end in self._ends]
        prompt = min(prompts, key=lambda timings: timings.num_cached_tokens)
        total = self.timings
        numbers = usage(total, prompt=prompt)
        if self._drafts:
            rejected = total.num_drafted - total.num_draft_accepted
            numbers["completion_tokens_details"] = {
                "accepted_prediction_tokens": total.num_draft_accepted,
                "rejected_prediction_tokens": rejected,
            }
            if not total.num_drafted:
                numbers["composer"] = {"prediction": "unused"}
        elif self._drafts is not None:
            numbers["composer"] = {"prediction": "unsupported"}
        return numbers

    def weights(self) -> dict[str, Any]:
        """The oldest that took part, as a field of the answer; empty where none are counted."""
        versions = [end.weights_version for end in self._ends]
        known = [version for version in versions if version is not None]
        return {"composer": {"weights_version": min(known)}} if known else {}


def requests(generate: GenerateRequest, num_choices: int) -> list[GenerateRequest]:
    """One a choice, with seeds that follow each other where one is given."""
    sampling = generate.sampling
    if sampling.seed is None:
        return [generate] * num_choices
    return [
        replace(generate, sampling=replace(sampling, seed=sampling.seed + index))
        for index in range(num_choices)
    ]


async def together(streams: Sequence[Parts]) -> Parts:
    """The parts of all streams as they come. The first error ends them all, and so does closing."""
    arrived: asyncio.Queue[ChoicePart | asyncio.Task[None]] = asyncio.Queue()

    async def read(stream: Parts) -> None:
        async with aclosing(stream):
            async for part in stream:
                arrived.put_nowait(part)

    tasks = [asyncio.create_task(read(stream)) for stream in streams]
    for task in tasks:
        task.add_done_callback(arrived.put_nowait)
    num_left = len(tasks)
    try:
        while num_left:
            part = await arrived.get()
            if isinstance(part, ChoicePart):
                yield part
            else:
                part.result()
                num_left -= 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def streamed(
    first: dict[str, Any], parts: Parts, totals: Totals, *, num_choices: int, timed: bool
) -> Events:
    """Events that begin with the fields `first`: the last of each choice with its timings and
    weights, the last of all with the usage. `timed`: timings with every event, as of then."""
    async with aclosing(parts):
        async for part in parts:
            event = {**first, "choices": [part.choice]}
            if timed or part.is_last:
                event["timings"] = timings_object(part.timings)
            if part.is_last:
                end = Totals(drafts=None)
                end.add(part)
                totals.add(part)
                event |= end.weights()
                if totals.num_ended == num_choices:
                    event["usage"] = totals.usage()
            yield event


def whole(
    first: dict[str, Any], choices: Sequence[dict[str, Any]], totals: Totals
) -> dict[str, Any]:
    """The answer at once."""
    return {
        **first,
        "choices": list(choices),
        "timings": timings_object(totals.timings),
        "usage": totals.usage(),
        **totals.weights(),
    }
