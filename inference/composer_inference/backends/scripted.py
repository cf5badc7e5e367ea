"""A deterministic backend that answers from a script, for tests of everything around a model.

The script is JSON: `{"rules": [{"match": REGEX, "text": TEXT, "token_delay_ms": 0, "error": null}],
"default": {"text": ""}}`. The first rule whose regular expression is found in the prompt answers;
its text is streamed word by word.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_inference.backends.base import (
    BackendError,
    Capability,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Timings,
)

_TOKEN = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    match: re.Pattern[str]
    text: str = ""
    token_delay_ms: float = 0.0
    """Before each word."""
    error: str | None = None
    """Fail with this message instead of answering."""


class ScriptedBackend:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def from_file(cls, path: Path) -> "ScriptedBackend":
        """Raises: BackendError that names the file and what is wrong with it."""
        try:
            script: Any = json.loads(path.read_text(encoding="utf-8"))
            rules = [_rule(entry) for entry in script.get("rules", [])]
            default = script.get("default", {})
            return cls([*rules, _rule({"match": "", **default})])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, re.error) as error:
            raise BackendError(f"{path} is no script of rules: {error}") from error

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
        if request.json_schema or request.grammar or request.draft_text:
            raise MissingCapabilityError("the scripted backend knows no grammar and no draft")
        prompt = "".join(str(piece) for piece in request.prompt)
        rule = next((rule for rule in self._rules if rule.match.search(prompt)), None)
        if rule is None:
            raise BackendError("no rule of the script matches the prompt")
        if rule.error is not None:
            raise BackendError(rule.error)
        text, reason = _stopped(rule.text, request.sampling.stop)
        words = _TOKEN.findall(text)
        if len(words) > request.sampling.max_tokens:
            words, reason = words[: request.sampling.max_tokens], "length"
        for word in words:
            await asyncio.sleep(rule.token_delay_ms / 1000)
            yield GenerateChunk(text=word, token_ids=(0,))
        timings = Timings(num_decoded_tokens=len(words))
        yield GenerateChunk(finish_reason=reason, timings=timings)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise MissingCapabilityError("the scripted backend embeds nothing")

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        raise MissingCapabilityError("the scripted backend ranks nothing")

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        raise MissingCapabilityError("the scripted backend has no tokenizer")

    async def close(self) -> None:
        return


def _stopped(text: str, stops: Sequence[str]) -> tuple[str, FinishReason]:
    ends = [end for stop in stops if stop and (end := text.find(stop)) >= 0]
    return text[: min(ends, default=len(text))], "stop"


def _rule(entry: dict[str, Any]) -> Rule:
    fields: dict[str, Any] = {**entry, "match": re.compile(entry["match"])}
    return Rule(**fields)
