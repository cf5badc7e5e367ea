"""Chat templates: what the models' own need, tools where a template knows none, and failures."""

import json

import pytest

from composer_inference.chat.messages import ToolArguments, render_conversation
from composer_inference.chat.template import ChatTemplateError, knows_tools, render_chat

USER = {"role": "user", "content": "Add <b> & ü"}
TOOL = {"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}
CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "grep", "arguments": ToolArguments({"pattern": "ü"})},
}
PAST = [
    {"role": "system", "content": "Be brief."},
    USER,
    {"role": "assistant", "content": "Looking.", "tool_calls": [CALL]},
    {"role": "tool", "content": "3 hits", "tool_call_id": "1"},
]


def render(template: str | None, messages=(USER,), tools=(), **special_tokens: str) -> str:
    return render_conversation(template, messages, tools=tools, special_tokens=special_tokens)


def test_a_model_without_a_template_gets_chatml():
    assert render(None, [{"role": "system", "content": "S"}, USER]) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nAdd <b> & ü<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        pytest.param("{{ bos_token }}{{ eos_token }}{{ pad_token }}x", "<s></s>x", id="special"),
        pytest.param("{{ messages | tojson }}", json.dumps([USER], ensure_ascii=False), id="tojson"),
        pytest.param("{{ {'b': 1} | tojson(indent=2) }}", '{\n  "b": 1\n}', id="indent"),
        pytest.param(
            "{% for m in messages %}\n  {% if m %}\n{{ m.role }}\n  {% endif %}\n{% endfor %}\n",
            "user\n", id="trimmed-blocks",
        ),
        pytest.param("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
                     "01", id="break"),
        pytest.param("{% generation %}{{ messages[0].role }}{% endgeneration %}!", "user!",
                     id="generation"),
        pytest.param("{{ strftime_now('%Y') | length }}", "4", id="strftime"),
        pytest.param("{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}", "2", id="namespace"),
        pytest.param("{{ tools is none }}{{ add_generation_prompt }}", "TrueTrue", id="names"),
    ],
)  # fmt: skip
def test_what_templates_rely_on(template, rendered):
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    assert render_chat(template, [USER], special_tokens=special) == rendered


@pytest.mark.parametrize(
    ("template", "says"),
    [
        pytest.param(
            "{{ raise_exception('Roles must alternate') }}", "Roles must alternate", id="own"
        ),
        pytest.param("{% if %}", "Expected an expression", id="syntax"),
        pytest.param("{{ messages[0].content + 1 }}", "concatenate", id="type"),
        pytest.param("{{ messages[9].content.x }}", "no element 9", id="index"),
        pytest.param("{{ 1 // 0 }}", "zero", id="zero"),
        pytest.param("{{ messages.append(1) }}", "is unsafe", id="mutation"),
        pytest.param("{{ ''.__class__.__mro__ }}", "is unsafe", id="escape"),
        pytest.param("{% for i in range(10**8) %}{% endfor %}", "Range too big", id="endless"),
        pytest.param("{{ nothing() }}", "undefined", id="undefined"),
    ],
)
def test_a_template_that_fails_is_told(template, says):
    with pytest.raises(ChatTemplateError, match=f"chat template failed: .*{says}"):
        render_chat(template, [USER], special_tokens={})


@pytest.mark.parametrize(
    ("template", "knows"),
    [("{% if tools %}{% endif %}", True), ("{{ messages }}", False), (None, False),
     ("{% set tools = 1 %}{{ tools }}", False)],
)  # fmt: skip
def test_knowing_tools(template, knows):
    assert knows_tools(template) is knows


def test_a_broken_template_is_told_before_its_tools_are_looked_for():
    with pytest.raises(ChatTemplateError, match="broken"):
        render("{% if %}", tools=[TOOL])


@pytest.mark.parametrize(
    "written",
    ["{{ a | tojson }}", "{{ a }}", "{{ '' + a }}", "{{ a + '' }}", "{{ a ~ '' }}"],
)
def test_arguments_can_be_written_as_an_object_or_a_text(written):
    template = (
        f"{{% for m in messages %}}{{% for c in m.tool_calls %}}{{% set a = c.function.arguments %}}"
        f"{written}{{{{ a.pattern }}}}{{% endfor %}}{{% endfor %}}{{{{ tools }}}}"
    )
    assert render(template, PAST) == '{"pattern": "ü"}üNone'


def test_tools_for_a_template_that_knows_none():
    rendered = render(None, PAST, [TOOL])
    system, user, assistant, tool, answer = rendered.split("<|im_start|>")[1:]
    assert system.startswith("system\nBe brief.\n\n# Tools")
    assert json.dumps(TOOL) in system
    assert user == "user\nAdd <b> & ü<|im_end|>\n"
    assert assistant == (
        'assistant\nLooking.\n<tool_call>\n{"name": "grep", "arguments": {"pattern": "ü"}}\n'
        "</tool_call><|im_end|>\n"
    )
    assert tool == "user\n<tool_response>\n3 hits\n</tool_response><|im_end|>\n"
    assert answer == "assistant\n"


def test_tools_without_a_system_message():
    assert render(None, [USER], [TOOL]).startswith("<|im_start|>system\n# Tools")


def test_past_calls_without_tools():
    assert "<tool_response>\n3 hits" in render(None, PAST)


def test_a_template_that_knows_tools_gets_them_as_they_are():
    template = "{{ tools | tojson }}{{ messages | map(attribute='role') | join(',') }}"
    assert render(template, PAST, [TOOL]) == f"{json.dumps([TOOL])}system,user,assistant,tool"
