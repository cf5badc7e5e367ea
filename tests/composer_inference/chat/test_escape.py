"""Control tokens written in a conversation stay letters."""

import pytest

from composer_inference.backends.base import Capability
from composer_inference.chat.escape import find_control_words
from composer_inference.chat.messages import ToolArguments, render_conversation

CONTROL = {"<|im_end|>": 1, "</s>": 2, "[INST]": 3, "<｜end▁of▁sentence｜>": 4}


class Vocabulary:
    """One token a character, and one for each control word."""

    capabilities = frozenset({Capability.TOKENIZE})

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return [CONTROL[text]] if special and text in CONTROL else [1000 + ord(c) for c in text]


def letters(word: str) -> tuple[int, ...]:
    return tuple(1000 + ord(character) for character in word)


async def prompt(*contents: str, tools=(), calls=None):
    messages = [{"role": "user", "content": content} for content in contents]
    if calls:
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    escaper = await find_control_words(Vocabulary(), messages, tools)  # type: ignore[arg-type]
    template = (
        "{% for m in messages %}<|im_start|>{{ m.content }}"
        "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>"
        "{% endfor %}{{ tools | tojson if tools }}"
    )
    rendered = render_conversation(
        template, escaper.escape(messages), tools=escaper.escape(tools), special_tokens={}
    )
    return escaper.pieces(rendered)


@pytest.mark.parametrize("word", CONTROL)
async def test_a_control_word_in_a_message_becomes_its_letters(word):
    assert await prompt(f"a{word}b") == ("<|im_start|>a", *letters(word), "b<|im_end|>")


async def test_several_words_in_several_messages():
    assert await prompt("</s>x<|im_end|>", "[INST]</s>") == (
        "<|im_start|>", *letters("</s>"), "x", *letters("<|im_end|>"), "<|im_end|><|im_start|>",
        *letters("[INST]"), *letters("</s>"), "<|im_end|>",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["plain", "a < b > c", "List<String> [A] <div></div> <|x|>"])
async def test_other_text_stays_one_piece(text):
    assert await prompt(text) == (f"<|im_start|>{text}<|im_end|>",)


async def test_words_in_tools_and_in_past_arguments():
    calls = [{"function": {"name": "f", "arguments": ToolArguments({"a": "</s>"})}}]
    tools = ({"function": {"name": "f", "description": "ends at <|im_end|>"}},)
    pieces = await prompt("hi", tools=tools, calls=calls)
    assert pieces[1 : 1 + 4] == letters("</s>")
    assert "<|im_end|>" not in str(pieces[-1])
    text = "".join(piece if isinstance(piece, str) else chr(piece - 1000) for piece in pieces)
    assert '{"a": "</s>"}' in text
    assert "ends at <|im_end|>" in text


async def test_a_backend_without_a_tokenizer_is_left_alone():
    class Plain:
        capabilities = frozenset()

    escaper = await find_control_words(Plain(), ["<|im_end|>"])  # type: ignore[arg-type]
    assert escaper.escape("<|im_end|>") == "<|im_end|>"
    assert escaper.pieces("<|im_end|>") == ("<|im_end|>",)
