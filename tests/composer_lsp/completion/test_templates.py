import pytest

from composer_lsp.completion.templates import (
    TEMPLATES,
    FimPrompt,
    UnknownTemplateError,
    find_template,
)

PROMPT = FimPrompt(prefix="P{suffix}", suffix="S{prefix}")


@pytest.mark.parametrize(
    ("model", "rendered"),
    [
        (
            "qwen2.5-coder-0.5b",
            "<|fim_prefix|><|fim_suffix|>S{prefix}<|fim_middle|>P{suffix}",
        ),
        (
            "Qwen/Qwen3-Coder-30B-A3B-Instruct",
            "<|fim_prefix|><|fim_suffix|>S{prefix}<|fim_middle|>P{suffix}",
        ),
        (
            "bigcode/starcoder2-3b",
            "<fim_prefix><fim_suffix>S{prefix}<fim_middle>P{suffix}",
        ),
        (
            "deepseek-coder-6.7b-base",
            "<｜fim▁begin｜>P{suffix}<｜fim▁hole｜>S{prefix}<｜fim▁end｜>",
        ),
        ("CodeLlama-7b-hf", "<PRE> P{suffix} <SUF>S{prefix} <MID>"),
        ("codestral-latest", "[SUFFIX]S{prefix}[PREFIX]P{suffix}"),
        ("granite-8b-code-base", "<fim_prefix><fim_suffix>S{prefix}<fim_middle>P{suffix}"),
        (
            "ibm-granite/granite-4.0-h-tiny",
            "<|fim_prefix|>P{suffix}<|fim_suffix|>S{prefix}<|fim_middle|>",
        ),
        ("codegemma-2b", "<|fim_prefix|>P{suffix}<|fim_suffix|>S{prefix}<|fim_middle|>"),
        (
            "Seed-Coder-8B-Base",
            "<[fim-suffix]>S{prefix}<[fim-prefix]>P{suffix}<[fim-middle]>",
        ),
        ("smollm2-135m", "P{suffix}"),
        ("gpt-4o", "P{suffix}"),
    ],
)
def test_template_by_model(model: str, rendered: str) -> None:
    assert find_template("auto", model).render(PROMPT, hold_back=False).text == rendered


def test_named_template_goes_before_the_model() -> None:
    assert find_template("codestral", "qwen").name == "codestral"


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownTemplateError, match=r"'nope'.*qwen.*suffix, infill"):
        find_template("nope", "qwen")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_sentinels_in_the_text_do_not_become_sentinels(template: object) -> None:
    from composer_lsp.completion.templates import FimTemplate

    assert isinstance(template, FimTemplate)
    text = "a".join(template.sentinels)
    rendered = template.render(FimPrompt(prefix=text, suffix=text), hold_back=False).text
    plain = template.render(FimPrompt(prefix="", suffix="")).text
    for sentinel in template.sentinels:
        assert rendered.count(sentinel) == plain.count(sentinel)


def test_prompt_that_ends_with_the_prefix_holds_its_last_token_back() -> None:
    rendered = find_template("qwen", "").render(FimPrompt(prefix="x = fo", suffix="\n"))
    assert rendered.text.endswith("<|fim_middle|>x =")
    assert rendered.starts_with == " fo"


def test_prompt_that_ends_with_a_sentinel_is_whole() -> None:
    rendered = find_template("deepseek-coder", "").render(FimPrompt(prefix="x = fo", suffix="\n"))
    assert "x = fo<" in rendered.text
    assert rendered.starts_with == ""


def test_path_goes_first_where_the_family_knows_paths() -> None:
    prompt = FimPrompt(prefix="", suffix="\n", path="src/<|fim_pad|>.rs")
    rendered = find_template("qwen", "").render(prompt).text
    assert rendered.startswith("<|file_sep|>src/< |fim_pad|>.rs\n<|fim_prefix|>")
    assert find_template("codellama", "").render(prompt).text.startswith("<PRE>")
