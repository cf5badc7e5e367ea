"""Other files' text in a prompt."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.completion.prompt import narrowed
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.templates import TEMPLATES, FimPrompt, FimTemplate, find_template

SNIPPETS = (
    Snippet(path="w/a.py", text="\nA = 1\n\nB = {path}\n"),
    Snippet(path="w/b.py", text="C = 2"),
)
PROMPT = FimPrompt(
    prefix="P",
    suffix="S",
    path="w/c.py",
    context=RepositoryContext(repository="shop", snippets=SNIPPETS),
    line_comment="#",
)
COMMENTS = "# w/a.py\n# A = 1\n#\n# B = {path}\n#\n# w/b.py\n# C = 2\n#\n# w/c.py\n"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            "qwen",
            "<|repo_name|>shop\n<|file_sep|>w/a.py\nA = 1\n\nB = {path}\n<|file_sep|>w/b.py\nC = 2\n"
            "<|file_sep|>w/c.py\n<|fim_prefix|><|fim_suffix|>S<|fim_middle|>P",
        ),
        (
            "starcoder2",
            "<repo_name>shop<file_sep>w/a.py\nA = 1\n\nB = {path}\n<file_sep>w/b.py\nC = 2\n"
            "<file_sep><fim_prefix><fim_suffix>S<fim_middle>w/c.py\nP",
        ),
        (
            "deepseek-coder",
            "<｜fim▁begin｜>#w/a.py\nA = 1\n\nB = {path}\n#w/b.py\nC = 2\n#w/c.py\nP"
            "<｜fim▁hole｜>S<｜fim▁end｜>",
        ),
        (
            "codestral",
            "[SUFFIX]S[PREFIX]+++++ w/a.py\nA = 1\n\nB = {path}\n\n+++++ w/b.py\nC = 2\n\n"
            "+++++ w/c.py\nP",
        ),
        ("starcoder", f"<fim_prefix><fim_suffix>S<fim_middle>{COMMENTS}P"),
        ("codellama", f"<PRE> {COMMENTS}P <SUF>S <MID>"),
        ("prefix", f"{COMMENTS}P"),
    ],
)
def test_files_stand_as_the_family_saw_them(template: str, text: str) -> None:
    assert find_template(template, "").render(PROMPT, hold_back=False).text == text


def test_language_without_line_comments_gets_none() -> None:
    prompt = replace(PROMPT, line_comment="")
    assert find_template("prefix", "").render(prompt, hold_back=False).text == "P"


def test_repository_without_a_name_has_no_mark() -> None:
    prompt = replace(PROMPT, context=RepositoryContext(snippets=SNIPPETS))
    assert find_template("qwen", "").render(prompt).text.startswith("<|file_sep|>w/a.py\n")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_sentinels_of_other_files_do_not_become_sentinels(template: FimTemplate) -> None:
    text = "a".join(template.sentinels)
    hostile = RepositoryContext(repository=text, snippets=(Snippet(path=text, text=text),))
    tame = RepositoryContext(repository="x", snippets=(Snippet(path="x", text="x"),))
    rendered = template.render(replace(PROMPT, path=text, context=hostile)).text
    plain = template.render(replace(PROMPT, context=tame)).text
    for sentinel in template.sentinels:
        assert rendered.count(sentinel) == plain.count(sentinel)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@given(typed=st.text(alphabet="ab_ (.\n", max_size=30))
def test_nothing_before_the_typed_text_changes(template: FimTemplate, typed: str) -> None:
    start = "def f():"
    prompts = [replace(PROMPT, prefix=start + typed[:end]) for end in range(len(typed) + 1)]
    steps = [template.render(prompt) for prompt in prompts]
    texts = [step.text + step.starts_with for step in steps]
    constant = texts[0][: texts[0].index(start) + len(start)]
    assert all(text.startswith(constant) for text in texts)
    if template.pattern.endswith("{prefix}"):
        assert texts == [constant + typed[:end] for end in range(len(typed) + 1)]


def test_narrowed_drops_other_files_before_the_file_itself() -> None:
    sizes = [
        (len(p.context.snippets), len(p.prefix)) for p in narrowed(replace(PROMPT, prefix="PPPP"))
    ]
    assert sizes == [(2, 4), (0, 4), (0, 2)]
    assert len(list(narrowed(replace(PROMPT, context=RepositoryContext())))) == 2
