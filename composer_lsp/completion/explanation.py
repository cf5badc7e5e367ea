"""Why a suggestion is what it is: what went into it, what the engine said, what trimming left and why
it was shown. All of it can be told again from a saved answer, without an engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from composer_lsp.completion import judge
from composer_lsp.completion.answer import Answer
from composer_lsp.completion.tokens import estimated_tokens
from composer_lsp.completion.trim import Trimmer, TrimStep

_STAGES = ("debounce", "prompt", "queue", "prefill", "first_token", "decode", "trim", "total")
_MAX_PART_CHARS = 2000
"""Of a part of the prompt that is told to people, who see both of its ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a prompt, in the order in which a model of files reads them."""

    name: str
    text: str
    num_tokens: int
    """Estimated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """A feature of the judge's, and what it adds to the logit."""

    name: str
    value: float
    logit: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    answer: Answer
    parts: tuple[Part, ...]
    trims: tuple[TrimStep, ...]
    text: str | None
    """What trimming leaves now; in a replay it may be another than the saved one."""
    score: float | None
    features: tuple[Weighed, ...]

    @property
    def is_as_saved(self) -> bool:
        return self.text == self.answer.text

    def as_json(self) -> dict[str, Any]:
        answer = self.answer
        return {
            "uri": answer.place.uri,
            "languageId": answer.place.language_id,
            "line": answer.place.line,
            "column": answer.place.column,
            "trigger": answer.place.trigger,
            "prompt": [
                {"name": each.name, "text": each.text, "tokens": each.num_tokens}
                for each in self.parts
            ],
            "raw": answer.raw,
            "finishReason": answer.finish_reason or "cut",
            "trims": [
                {"rule": each.rule, "removed": removed(each), "left": each.after}
                for each in self.trims
            ],
            "text": self.text,
            "score": self.score,
            "minScore": answer.min_score,
            "isShown": answer.is_shown,
            "features": {each.name: each.value for each in self.features},
            "timings": {name: round(ms, 1) for name, ms in answer.timings.items()},
            "tokens": dict(answer.num_tokens),
        }


def explained(answer: Answer) -> Explanation:
    """Trim and judge the answer again, noting what is done."""
    steps: list[TrimStep] = []
    trimmer = Trimmer(answer.place.surroundings, steps)
    trimmer.feed(answer.raw)
    text = trimmer.finish(answer.finish_reason or "stop")
    features = judge.features_of(
        text or "",
        answer.tokens,
        is_cut=answer.finish_reason is None,
        after=answer.place.surroundings.after,
    )
    return Explanation(
        answer=answer,
        parts=tuple(_parts(answer)),
        trims=tuple(steps),
        text=text,
        score=None if features is None else judge.score_of(features),
        features=_weighed(features),
    )


def removed(step: TrimStep) -> str | None:
    """What the rule cut off, None where it changed the text within."""
    if step.before.startswith(step.after):
        return step.before[len(step.after) :]
    if step.before.endswith(step.after):
        return step.before[: len(step.before) - len(step.after)]
    return None


def as_markdown(explanation: Explanation, *, shown: str | None = None) -> str:
    """For people. `shown`: what is on the screen, where that is the rest of an answer from before."""
    answer = explanation.answer
    lines = [f"# Why this suggestion\n\n{_verdict(explanation)}\n"]
    if shown and shown != answer.text:
        lines.append("From memory: the rest of it, without what was typed or accepted since.\n")
        lines.append(_fenced(shown))
    lines += [
        f"- Place: {answer.place.uri}, line {answer.place.line}, column {answer.place.column}"
        f" ({answer.place.language_id or 'no language'}, {answer.place.trigger})",
        f"- Time in ms: {_timings(answer)}",
        f"- Tokens: {_tokens(answer)}\n",
        "## Score\n",
        _score(explanation),
        "## The model's text\n",
        _fenced(answer.raw),
        f"It ended: {_END[answer.finish_reason]}.\n",
        "## Trims\n",
        *(_trim(step) for step in explanation.trims),
        *([] if explanation.trims else ["None.\n"]),
        "## Prompt\n",
    ]
    for part in explanation.parts:
        lines.append(f"### {part.name}: about {part.num_tokens} tokens\n")
        lines.append(_fenced(_ends_of(part.text)))
    return "\n".join(lines)


_END = {
    "stop": "the model ended it",
    "length": "the limit on tokens was reached",
    None: "it was stopped, because the rest would have been trimmed",
}


def _parts(answer: Answer) -> Iterator[Part]:
    prompt = answer.prompt
    texts = [(each.path, each.text) for each in prompt.context.snippets]
    if prompt.path:
        texts.append(("Path of this file", prompt.path))
    texts += [("After the cursor", prompt.suffix), ("Before the cursor", prompt.prefix)]
    for name, text in texts:
        yield Part(name=name, text=text, num_tokens=estimated_tokens(text))


def _weighed(features: judge.Features | None) -> tuple[Weighed, ...]:
    if features is None:
        return ()
    values = ((each.name, getattr(features, each.name)) for each in fields(features))
    return tuple(
        Weighed(name=name, value=value, logit=value * getattr(judge.WEIGHTS, name))
        for name, value in values
    )


def _verdict(explanation: Explanation) -> str:
    answer = explanation.answer
    if explanation.text is None:
        verdict = "Nothing was shown: trimming left nothing of the model's text."
    elif not answer.is_shown:
        verdict = f"Nothing was shown: the score is below {answer.min_score:g}."
    else:
        verdict = "Shown:"
    text = "" if explanation.text is None else f"\n\n{_fenced(explanation.text)}"
    if not explanation.is_as_saved:
        text += "\nWhen it was saved, trimming left something else:\n\n" + _fenced(
            answer.text or ""
        )
    return verdict + text


def _timings(answer: Answer) -> str:
    known = [name for name in _STAGES if name in answer.timings]
    return ", ".join(f"{name} {answer.timings[name]:.1f}" for name in known) or "not known"


def _tokens(answer: Answer) -> str:
    names = (("num_cached_tokens", "cached"), ("num_prefill_tokens", "prefilled"))
    told = [f"{answer.num_tokens[key]} {word}" for key, word in names if key in answer.num_tokens]
    if "num_decoded_tokens" in answer.num_tokens:
        told.append(f"{answer.num_tokens['num_decoded_tokens']} decoded")
    elif answer.tokens:
        told.append(f"{len(answer.tokens)} decoded")
    return ", ".join(told) or "the engine tells none"


def _score(explanation: Explanation) -> str:
    if explanation.score is None:
        return "None: the engine told no log-probabilities, so what it says is shown.\n"
    rows = [f"{explanation.score:.2f}, of {explanation.answer.min_score:g} that are asked for.\n"]
    rows += ["| Feature | Value | Adds to the logit |", "|---|---|---|"]
    rows.append(f"| bias | | {judge.BIAS:+.2f} |")
    rows += [
        f"| {each.name} | {each.value:.2f} | {each.logit:+.2f} |" for each in explanation.features
    ]
    return "\n".join(rows) + "\n"


def _trim(step: TrimStep) -> str:
    cut = removed(step)
    if cut is None:
        return f"- {step.rule}; it became:\n\n{_fenced(step.after)}"
    return f"- {step.rule}:\n\n{_fenced(cut)}"


def _ends_of(text: str) -> str:
    if len(text) <= _MAX_PART_CHARS:
        return text
    half = _MAX_PART_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


def _fenced(text: str) -> str:
    """A block of code that no fence within ends."""
    longest = _longest_run("`", text)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}\n"


def _longest_run(char: str, text: str) -> int:
    runs: Sequence[str] = "".join(each if each == char else " " for each in text).split()
    return max(map(len, runs), default=0)
