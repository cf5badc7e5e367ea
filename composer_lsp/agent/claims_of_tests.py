"""Sentences of an answer that say that tests pass."""

import re
from collections.abc import Iterator

_PASSED = (
    r"(?:(?<!\bthe )(?<!\ba )(?<!\beach )pass(?:es|ed|ing)?\b(?!\s+(?:an?|its|their|them|it|to|the\s+(?!tests?|suite|checks?))\b|\s+`)"
    r"|succeed(?:s|ed)?\b|green\b|successful\b)"
)
_WELL = (
    r"(?:successfully|cleanly|fine|without\s+(?:any\s+)?(?:errors?|failures?|problems?)"
    r"|with\s(?:exit\s)?(?:code|status)\s0)\b"
)
_RAN = r"(?:runs?|ran|execut\w+|complet\w+|finish\w*|exit\w*)"
_SUBJECT = (
    r"(?:\btests?\b|\b(?:pytest|unittest|jest|vitest|mocha|rspec|tox|ctest|phpunit|(?:test\s)?suites?"
    r"|specs|test\scases|everything)\b)"
)
_GAP = r"(?:[^.\n]|\.(?=\w))"
_CLAIMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SUBJECT}{_GAP}{{0,40}}?\b{_PASSED}",
        r"\bpass(?:es|ed|ing)? (?:all |the |every |of |its )*(?!an? )(?:[\w-]+ )?tests?\b",
        rf"{_SUBJECT}(?!\s(?:runner|command|script|helper|function))[^.\n]{{0,20}}?\b{_RAN}\b[^.,;\n]{{0,20}}?\b{_WELL}",
        rf"{_SUBJECT}[`*]*\s*(?::|=|-|–|—|(?:is|are|was|were)(?:\sall)?\s)?\s*(?:[`*]*ok\b(?!,)|[✅✔☑🟢])",
        r"[✅✔☑🟢]\s*(?:all\s)?(?:\d+\s)?tests?\b(?=\W*$)",
        r"\b\d+(?:\s?/\s?\d+|\s(?:out\s)?of\s\d+)?\s(?:tests?\s|specs?\s|cases?\s)?(?:have\s)?pass(?:ed|ing)?\b"
        r"(?=\W*(?:$|\d|in\s\d|and\b|with(?:out)?\b|now\b))",
        r"\ball\s(?:is\s|are\s)?green\b",
    )
)
_CLAIMS_BY_DENIAL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:no|zero|0|none\sof\sthe|not\s(?:one|a\ssingle)|neither)\s(?:[\w-]+\s){0,2}?tests?\s(?:[\w-]+\s){0,2}?"
        r"(?:fail\w*|broken?|breaks?)\b",
        r"\b(?:no|zero|0)\s(?:test\s|failing\s)(?:failures|tests?)\b",
        r"\b(?:no|zero|0)\s(?:failed|failures?)\b(?=\W*$)",
        r"\btests?\s(?:[\w']+\s){0,2}?(?:no\slonger|not|never|don't|doesn't|didn't|without)\s(?:\w+\s){0,2}?fail\w*",
    )
)
"""In which "no" and "not" are the claim's own."""
_NEGATION = (
    r"not|\w+n[’']t|never|cannot|nor|should|would|will|could|may|might|must|whether|if|until|unless|when"
    r"|once|expect\w*|hope\w*|verify|ensure|confirm\s(?:that|whether)|check|make\s(?:sure|certain)|before"
)
_NEGATED_WITHIN = re.compile(rf"\b(?:{_NEGATION}|to|fails?|failed|no\s+tests?)\b", re.IGNORECASE)
_SUPPOSED_WITHIN = re.compile(
    r"\b(?:should|would|will|could|may|might|must|to|if|cannot|expect\w*)\b", re.IGNORECASE
)
_NEGATED_BEFORE = re.compile(
    rf"\b(?:{_NEGATION})\b(?:\W+[\w'’`-]+){{0,6}}?\W*$"
    r"|\bno\s+(?:longer\s+)?(?:[\w-]+\s+)?$"
    r"|\bto\s+(?:(?:get|make|have|see|let|keep|show|prove)\b(?:\W+\w+){0,4}\W*)?$",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\W*(?:(?:if|once|unless|until|as\ssoon\sas|assuming|after\syou)\b|(?:please\s)?(?:run|verify|check)\b)",
    re.IGNORECASE,
)
"""A sentence that begins so says what is to come."""
_DEPENDS = re.compile(r"\W*(?:only\s)?(?:if|unless)\b", re.IGNORECASE)
"""Behind what would be a claim."""
_CLAUSE = re.compile(r"[,;:()—]|\b(?:and|but|so|then)\b", re.IGNORECASE)
_FAILS = re.compile(
    r"\b(?:[1-9]\d*|one|two|three|some|several|many)\s(?:\w+\s){0,2}?(?:fails?|failed|failing|failures?)\b"
    r"(?!\s(?:tests?|cases?)\b)"
    r"|\b(?:which|that|still)\s(?:still\s)?(?:fails?|failing)\b|\b(?:and|but)\s\S*test\S*\s(?:still\s)?fails?\b"
    r"|\b(?:except|apart\sfrom|other\sthan)\b|\bbut\s(?:for|one|two)\b",
    re.IGNORECASE,
)
"""What says beside a claim that not all is well."""
_NEAR_CHARS = 120
"""Before a claim."""
_COUNTED = re.compile(r"\b(\d+)(?:\s?/\s?|\s(?:out\s)?of\s(?:the\s)?)(\d+)\b")


def claims_of_tests(text: str) -> Iterator[str]:
    """What claims it, once a sentence. A word such as "not" or "should" takes a claim back that
    stands shortly behind it, in the same clause, or around it."""
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        if sentence.rstrip("\"'”*) ").endswith("?") or _SUPPOSES.match(sentence):
            continue
        if _FAILS.search(sentence) or any(a != b for a, b in _COUNTED.findall(sentence)):
            continue
        if (claim := _claim(sentence)) is not None:
            yield claim


def _claim(sentence: str) -> str | None:
    for patterns, is_taken_back in (
        (_CLAIMS, _NEGATED_WITHIN),
        (_CLAIMS_BY_DENIAL, _SUPPOSED_WITHIN),
    ):
        for pattern in patterns:
            for match in _overlapping(pattern, sentence):
                near = sentence[max(0, match.start() - _NEAR_CHARS) : match.start()]
                if not (
                    is_taken_back.search(match[0])
                    or _NEGATED_BEFORE.search(_CLAUSE.split(near)[-1])
                    or _DEPENDS.match(sentence, match.end())
                ):
                    return match[0]
    return None


def _overlapping(pattern: "re.Pattern[str]", text: str) -> Iterator["re.Match[str]"]:
    match = pattern.search(text)
    while match is not None:
        yield match
        match = pattern.search(text, match.start() + 1)
