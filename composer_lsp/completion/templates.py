"""Fill-in-the-middle templates: how the text around the cursor becomes one prompt.

Two orders exist. Suffix-first keeps everything before the growing end of the prompt constant while
the user types, so a prompt cache computes only the new tokens; it is used for the families that
were trained on it or measured better with it (docs/decisions/0003-suffix-first-prompt.md). Its
prompt ends with the text before the cursor, and so needs token healing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from composer_lsp.completion.healing import split_last_token
from composer_lsp.completion.repository import (
    NO_CONTEXT,
    RepositoryContext,
    RepositoryFormat,
    as_comments,
)


class UnknownTemplateError(ValueError):
    """No template has this name; the message lists those that exist."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FimPrompt:
    """The text around the cursor, cut to the prompt budget, with `\\n` line endings."""

    prefix: str
    suffix: str
    path: str = ""
    """Of a file that says too little by itself, such as a new one, or beside other files' text; else
    empty."""
    context: RepositoryContext = NO_CONTEXT
    line_comment: str = ""
    """What begins a comment in the file's language; empty where no mark does."""
    prediction: str = ""
    """What the answer mostly repeats, where that is known."""

    @property
    def commented_prefix(self) -> str:
        """The prefix behind the other files' text as comments, for models without marks for it."""
        snippets = self.context.snippets
        if not snippets or not self.line_comment:
            return self.prefix
        return as_comments(snippets, self.path, self.line_comment) + self.prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedPrompt:
    text: str
    starts_with: str = ""
    """The end of the prefix, held back so that the prompt ends with a whole token: the answer has
    to begin with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FimTemplate:
    name: str
    models: str
    """Regular expression searched in a model's name, ignoring case."""
    pattern: str
    """`{prefix}` and `{suffix}` stand for the two texts."""
    sentinels: tuple[str, ...]
    """Every token that the model may emit around or instead of code; generation stops there."""
    source: str
    path_pattern: str = ""
    """What goes before the pattern for a prompt with a path, `{path}`; empty where the family's way
    was not measured."""
    files: RepositoryFormat | None = None
    """How other files' text is given; None: as comments at the top of the prefix."""

    def render(self, prompt: FimPrompt, *, hold_back: bool = True) -> RenderedPrompt:
        """`hold_back` False: the whole prefix, for servers that cannot be held to a beginning."""
        kept, held = prompt.prefix, ""
        if hold_back and self.pattern.endswith("{prefix}"):
            kept, held = split_last_token(prompt.prefix)
        front, prefix = self._with_files(replace(prompt, prefix=kept))
        texts = {"{prefix}": prefix, "{suffix}": self._defuse(prompt.suffix)}
        parts = re.split(r"(\{prefix\}|\{suffix\})", self.pattern)
        return RenderedPrompt(
            text=front + "".join(texts.get(part, part) for part in parts),
            starts_with=held,
        )

    def _with_files(self, prompt: FimPrompt) -> tuple[str, str]:
        """What goes before the pattern, and the prefix, with the other files' text in either."""
        if not prompt.context.snippets:
            return self._path(prompt), self._defuse(prompt.prefix)
        if self.files is None:
            return self._path(prompt), self._defuse(prompt.commented_prefix)
        front, head = self.files.render(prompt.context, prompt.path, self._defuse)
        return front, head + self._defuse(prompt.prefix)

    def _path(self, prompt: FimPrompt) -> str:
        path = self._defuse(" ".join(prompt.path.split()))
        return self.path_pattern.replace("{path}", path) if path else ""

    def _defuse(self, text: str) -> str:
        return _defuse(text, self.sentinels)


_STARCODER_SENTINELS = (
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<fim_pad>",
    "<repo_name>",
    "<file_sep>",
    "<issue_start>",
    "<jupyter_start>",
    "<filename>",
    "<gh_stars>",
    "<reponame>",
    "<|endoftext|>",
)

TEMPLATES = (
    FimTemplate(
        name="qwen",
        models=r"qwen",
        pattern="<|fim_prefix|><|fim_suffix|>{suffix}<|fim_middle|>{prefix}",
        sentinels=(
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<|endoftext|>",
            "<|im_start|>",
            "<|im_end|>",
        ),
        path_pattern="<|file_sep|>{path}\n",
        files=RepositoryFormat(
            repository="<|repo_name|>{repository}\n",
            snippet="<|file_sep|>{path}\n{text}\n",
            current="<|file_sep|>{path}\n",
        ),
        source="tokens, files: https://arxiv.org/abs/2409.12186 table 1; order: decision 0003",
    ),
    FimTemplate(
        name="codegemma",
        models=r"codegemma",
        pattern="<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>",
        sentinels=(
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|file_separator|>",
            "<end_of_turn>",
            "<eos>",
        ),
        source="https://ai.google.dev/gemma/docs/codegemma/prompt-structure",
    ),
    FimTemplate(
        name="granite",
        models=r"granite.*code|granite-(8b|3b|20b|34b)-",
        pattern="<fim_prefix><fim_suffix>{suffix}<fim_middle>{prefix}",
        sentinels=_STARCODER_SENTINELS,
        source="https://arxiv.org/abs/2405.04324 section 4.2: half of the data in each order",
    ),
    FimTemplate(
        name="granite4",
        models=r"granite",
        pattern="<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>",
        sentinels=(
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|fim_pad|>",
            "<|filename|>",
            "<|reponame|>",
            "<|end_of_text|>",
            "<|start_of_role|>",
        ),
        source="the model card of ibm-granite/granite-4.0-h-tiny",
    ),
    FimTemplate(
        name="starcoder2",
        models=r"starcoder-?2",
        pattern="<fim_prefix><fim_suffix>{suffix}<fim_middle>{prefix}",
        sentinels=_STARCODER_SENTINELS,
        # The path of the file that is filled in stands behind `<fim_prefix>` in training.
        files=RepositoryFormat(
            repository="<repo_name>{repository}",
            snippet="<file_sep>{path}\n{text}\n",
            current="<file_sep>",
            head="{path}\n",
        ),
        source="https://arxiv.org/abs/2402.19173 section 5.1",
    ),
    FimTemplate(
        name="starcoder",
        models=r"starcoder|stable-?code|smol.*code|refact",
        pattern="<fim_prefix><fim_suffix>{suffix}<fim_middle>{prefix}",
        sentinels=_STARCODER_SENTINELS,
        source="https://arxiv.org/abs/2305.06161 section 5.1: files one by one",
    ),
    FimTemplate(
        name="deepseek-coder",
        models=r"deepseek",
        pattern="<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>",
        sentinels=(
            "<｜fim▁begin｜>",
            "<｜fim▁hole｜>",
            "<｜fim▁end｜>",
            "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>",
            "<|EOT|>",
        ),
        files=RepositoryFormat(snippet="#{path}\n{text}\n", current="#{path}\n", is_in_prefix=True),
        source="https://arxiv.org/abs/2401.14196 section 3.1.2; files: the README of the models, "
        "repository level code completion",
    ),
    FimTemplate(
        name="codellama",
        models=r"code-?llama",
        pattern="<PRE> {prefix} <SUF>{suffix} <MID>",
        sentinels=("<PRE>", "<SUF>", "<MID>", "<EOT>", "</s>"),
        source="https://arxiv.org/abs/2308.12950 section 2.3; suffix-first loses inside words there",
    ),
    FimTemplate(
        name="codestral",
        models=r"codestral|devstral",
        pattern="[SUFFIX]{suffix}[PREFIX]{prefix}",
        sentinels=("[SUFFIX]", "[PREFIX]", "[MIDDLE]", "[INST]", "[/INST]", "</s>"),
        files=RepositoryFormat(
            snippet="+++++ {path}\n{text}\n\n", current="+++++ {path}\n", is_in_prefix=True
        ),
        source="mistral-common, tokens/tokenizers/instruct.py: encode_fim",
    ),
    FimTemplate(
        name="seed-coder",
        models=r"seed-?coder",
        pattern="<[fim-suffix]>{suffix}<[fim-prefix]>{prefix}<[fim-middle]>",
        sentinels=(
            "<[fim-suffix]>",
            "<[fim-prefix]>",
            "<[fim-middle]>",
            "<[end▁of▁sentence]>",
            "<[begin▁of▁sentence]>",
        ),
        source="https://arxiv.org/abs/2506.03524 section 3.3",
    ),
    FimTemplate(
        name="prefix",
        models=r"",
        pattern="{prefix}",
        sentinels=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "</s>", "<|eot_id|>"),
        source="models without fill-in-the-middle tokens continue the text before the cursor",
    ),
)

SERVER_SIDE = ("suffix", "infill")
"""Values of `fim_template` that leave the rendering to the server."""

_CHAT_MARKS = (
    "<|assistant|>",
    "<|user|>",
    "<|system|>",
    "<|cursor|>",
    "<|user_cursor_is_here|>",
    "<|start_header_id|>",
    "<|eom_id|>",
    "<NO_EDITS>",
    "NO_EDITS",
    "<think>",
    "</think>",
)

ALL_SENTINELS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (*(token for template in TEMPLATES for token in template.sentinels), *_CHAT_MARKS)
    )
)
"""Tokens of every known family: a model behind a URL may not be the one its name promises."""


def template_names() -> tuple[str, ...]:
    """What the setting `fim_template` accepts beside `auto`."""
    return (*(template.name for template in TEMPLATES), *SERVER_SIDE)


def find_template(name: str, model: str) -> FimTemplate:
    """The template of this name, or with `auto` the one for the model.

    Raises: UnknownTemplateError.
    """
    if name == "auto":
        return next(t for t in TEMPLATES if re.search(t.models, model, re.IGNORECASE))
    for template in TEMPLATES:
        if template.name == name:
            return template
    raise UnknownTemplateError(
        f"fimTemplate {name!r} is unknown; use auto, {', '.join(template_names())}"
    )


def _defuse(text: str, sentinels: Iterable[str]) -> str:
    # Source that mentions a sentinel (this file does) must not end the prompt's own sections: a
    # blank after the opening bracket keeps it readable and makes it ordinary tokens.
    for sentinel in sentinels:
        if sentinel in text:
            text = text.replace(sentinel, f"{sentinel[0]} {sentinel[1:]}")
    return text
