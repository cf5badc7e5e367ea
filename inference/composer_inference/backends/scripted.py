"""A deterministic backend that answers from a script, for tests of everything around a model.

The script is JSON: `{"rules": [{"match": REGEX, "text": TEXT, "sampled": [], "token_delay_ms": 0,
"error": null}], "default": {"text": ""}}`. The first rule whose regular expression is found in the
prompt answers; its text is streamed word by word, and its error, if it has one, follows the text.
Where none is found the default answers; it is empty if the script has none. A request with a
temperature is answered with one of the texts in `sampled`, if there are any: number `seed` of them,
counted on from the start again, or any of them without a seed.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from composer_inference.backends.base import (
    BackendError,
    Capability,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    SamplingParams,
    Timings,
)

_WORD = re.compile(r"\s*\S+|\s+$")

_FIELDS: Mapping[str, tuple[type, ...]] = {
    "match": (str,),
    "text": (str,),
    "sampled": (list,),
    "token_delay_ms": (int, float),
    "error": (str, type(None)),
}


class ScriptError(BackendError):
    """The file is no script; the message names it and the rule at fault."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    match: re.Pattern[str]
    text: str = ""
    sampled: tuple[str, ...] = ()
    """Answers to requests with a temperature; none: `text`, whatever the temperature."""
    token_delay_ms: float = 0.0
    """Before each word."""
    error: str | None = None
    """Fail with this message, after the text."""

    def answer(self, sampling: SamplingParams) -> str:
        if not self.sampled or sampling.temperature == 0:
            return self.text
        seed = random.randrange(len(self.sampled)) if sampling.seed is None else sampling.seed
        return self.sampled[seed % len(self.sampled)]


class ScriptedBackend:
    """Implements `Backend` without any of its optional capabilities."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """The last rule must fit every prompt."""
        self._rules = tuple(rules)

    @classmethod
    def from_file(cls, path: Path) -> "ScriptedBackend":
        """Raises: ScriptError."""
        try:
            script: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ScriptError(f"{path} is no script: {error}") from error
        if not isinstance(script, dict):
            raise ScriptError(f"{path} is no script: it holds no JSON object")
        entries = cast(dict[str, Any], script)
        unknown = entries.keys() - {"rules", "default"}
        if unknown:
            raise ScriptError(f"{path} is no script: it has {', '.join(sorted(unknown))}")
        try:
            rules = [_read_rule(entry) for entry in entries.get("rules", [])]
            rules.append(_read_rule({"match": "", **entries.get("default", {})}))
        except (TypeError, ValueError) as error:
            raise ScriptError(f"a rule of {path} is wrong: {error}") from error
        return cls(rules)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()

    @property
    def context_tokens(self) -> int:
        return 8192

    @property
    def chat_template(self) -> str | None:
        return None

    @property
    def special_tokens(self) -> dict[str, str]:
        return {}

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        _refuse_constraints(request)
        prompt = "".join(map(str, request.prompt))
        rule = next(rule for rule in self._rules if rule.match.search(prompt))
        text = _before_stop(rule.answer(request.sampling), request.sampling.stop)
        words: list[str] = _WORD.findall(text)
        reason: FinishReason = "stop"
        if len(words) > request.sampling.max_tokens:
            words, reason = words[: request.sampling.max_tokens], "length"
        timings = Timings(num_prefill_tokens=len(prompt.split()))
        yield GenerateChunk(timings=timings)
        for num_decoded, word in enumerate(words, start=1):
            await asyncio.sleep(rule.token_delay_ms / 1000)
            timings = Timings(
                num_prefill_tokens=timings.num_prefill_tokens, num_decoded_tokens=num_decoded
            )
            yield GenerateChunk(text=word, token_ids=(0,), timings=timings)
        if rule.error is not None:
            raise BackendError(rule.error)
        yield GenerateChunk(finish_reason=reason, timings=timings)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise MissingCapabilityError("the scripted backend embeds nothing")

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        raise MissingCapabilityError("the scripted backend ranks nothing")

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        raise MissingCapabilityError("the scripted backend has no tokenizer")

    async def close(self) -> None:
        return


def _refuse_constraints(request: GenerateRequest) -> None:
    constraints = {
        "grammar": request.grammar or request.json_schema is not None,
        "draft text": request.draft_text is not None,
        "log-probabilities": request.sampling.num_logprobs > 0,
    }
    for name, wanted in constraints.items():
        if wanted:
            raise MissingCapabilityError(f"the scripted backend knows no {name}")


def _before_stop(text: str, stops: Sequence[str]) -> str:
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends, default=len(text))]


def _read_rule(entry: Any) -> Rule:
    """Raises: TypeError, ValueError."""
    if not isinstance(entry, dict):
        raise TypeError(f"{entry!r} is no object")
    fields = cast(dict[str, Any], entry)
    for name, value in fields.items():
        if name not in _FIELDS:
            raise ValueError(f"{name} is none of {', '.join(_FIELDS)}")
        if not isinstance(value, _FIELDS[name]) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}")
    sampled = cast(list[Any], fields.get("sampled", []))
    if not all(isinstance(text, str) for text in sampled):
        raise TypeError(f"sampled is {sampled!r}")
    if "match" not in fields:
        raise ValueError(f"{fields!r} has no match")
    try:
        match = re.compile(fields["match"])
    except re.error as error:
        raise ValueError(f"match is no regular expression: {error}") from error
    values: dict[str, Any] = {**fields, "match": match, "sampled": tuple(sampled)}
    return Rule(**values)
