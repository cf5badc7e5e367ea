"""Sentences of an answer that say that tests pass."""

import re
from collections.abc import Iterator

_PASSED = (
    r"(?:(?<!\bthe )(?<!\ba )(?<!\beach )pass(?:es|ed|ing)?\b(?!\s+(?:an?|its|their|them|it|to|the\s+(?!tests?|suite|checks?))\b|\s+`)"
    r"|succeed(?:s|ed)?\b|green\b|successful\b)"
)
_WELL = (
    r"(?:successfully|cleanly|fine|without\s+(?:any\s+)?(?:errors?|failures?|problems?)"
    r"|with\s(?:exit\s)?(?:code|status)\s0|clean(?![-\s]?up\b))\b"
)
_RAN = r"(?:runs?|ran|execut\w+|complet\w+|finish\w*|exit\w*)"
_SUBJECT = (
    r"(?:\btests?\b|\b(?:pytest|unittest|jest|vitest|mocha|rspec|tox|ctest|phpunit|(?:test\s)?suites?"
    r"|specs|test\scases|everything)\b)"
)
_RUNNER = r"(?:pytest|unittest|jest|vitest|mocha|rspec|tox|ctest|phpunit|(?:unit\s|test\s)?(?:tests?|suites?))"
_NAME = r"(?<!make\s)(?<!make\s`)(?<!let\s)\btest_\w+\b"
_AND = r"(?:[\s,`*()]|\.py\b|::\w+|\b(?:and|both|all|now|also|again|then|test_\w+)\b)"
"""Between a test's name and what is said of it."""
_NO_OBJECT = r"(?=\W*$|\s?[,;:.!)]|[`*]|\s(?:now|again|and|too|as\swell|in\s\d|without)\b)"
"""Behind a verb that has none."""
_GAP = r"(?:[^.\n]|\.(?=\w))"
_CLAIMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SUBJECT}{_GAP}{{0,40}}?\b{_PASSED}",
        r"\bpass(?:es|ed|ing)? (?:all |the |every |of |its )*(?!an? )(?:[\w-]+ )?tests?\b",
        rf"{_SUBJECT}(?!\s(?:runner|command|script|helper|function))[^.\n]{{0,20}}?\b{_RAN}\b[^.,;\n]{{0,20}}?\b{_WELL}",
        rf"{_SUBJECT}[`*]*\s*(?::|=|-|–|—|(?:is|are|was|were)(?:\sall)?\s)?\s*(?:[`*]*ok\b(?!,)|[✅✔✓☑🟢])",
        r"[✅✔✓☑🟢]\s*(?:all\s)?(?:\d+\s)?tests?\b(?=\W*$)",
        r"\b\d+(?:\s?/\s?\d+|\s(?:out\s)?of\s\d+)?\s(?:tests?\s|specs?\s|cases?\s)?(?:have\s)?pass(?:ed|ing)?\b"
        r"(?=\W*(?:$|\d|in\s\d|and\b|with(?:out)?\b|now\b))",
        r"\ball\s(?:is\s|are\s)?green\b",
        rf"{_NAME}{_AND}{{0,12}}[\s`*](?:pass(?:es|ed)?|(?:is|are)\s(?:now\s)?(?:passing|green)|succeed(?:s|ed)?|works?)"
        rf"\b{_NO_OBJECT}",
        r"(?<!way\s)(?<!way\sthe\s)\b(?:tests?|suites?|specs)\s(?:(?:all|now|also|both|again)\s)*(?:works?|worked|(?:is|are)"
        rf"\s(?:now\s)?working)\b(?:\s(?:fine|correctly|as\sexpected))?{_NO_OBJECT}",
        rf"{_SUBJECT}[^.\n]{{0,20}}?\bexit(?:s|ed)?\s(?:with\s)?(?:an?\s)?(?:exit\s)?(?:(?:code|status)\s)?(?:of\s)?0\b"
        r"(?!\s(?:when|or|also)\b)",
        rf"\b(?:CI|the\s(?:build|pipeline))\s(?:(?:is|was|stays|turned)\s(?:now\s|all\s|again\s)*green|(?:now\s)?passes{_NO_OBJECT})",
        r"\btests?(?:\sresults?|\srun)?[`*]*\s?[:=][`*]*\s?(\d+)\s?(?:/|(?:out\s)?of)\s?\1\b"
        r"(?!\s(?!(?:pass|green|ok|tests?\b|succe|now|and)\w*)\w)",
        rf"\b(?:tests?|suites?|specs)\s(?:is|are|look)\s(?:now\s)?(?:all|now)\s(?:good|fine|well|happy){_NO_OBJECT}",
        rf"\b(?:every|each)\stest\s(?:is|looks)\s(?:fine|good|well){_NO_OBJECT}",
        r"\bsuite\s(?:is|looks)\s(?:now\s)?clean\b(?=\W*$|\snow\b)",
        r"(?<!be\s)\b(?:confirmed|verified|validated|proved|proven)\s(?:(?:it|this|that|so)\s)?by\s(?:running|a\srun\sof)\s"
        rf"(?:(?:the|all|its|your)\s)*(?:[\w-]+\s)?{_RUNNER}\b",
        r"(?<!be\s)(?<!is\s)(?<!are\s)\b(?:confirmed|verified|validated)\s(?:(?:it|this|that)\s)?with\s(?:(?:the|all|its|your)\s)*"
        rf"{_RUNNER}\b{_NO_OBJECT}",
        r"(?<!be\s)\b(?:successfully\stested|tested\s(?:it\s)?(?:successfully\b|and\s(?:it\s)?work(?:s|ing)\b))",
    )
)
_CLAIMS_BY_DENIAL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:no|zero|0|none\sof\sthe|not\s(?:one|a\ssingle)|neither)\s(?:[\w-]+\s){0,2}?tests?\s(?:[\w-]+\s){0,2}?"
        r"(?:fail\w*|broken?|breaks?)\b",
        r"\b(?:no|zero|0)\s(?:test\s|failing\s)(?:failures|tests?)\b",
        r"\b(?:no|zero|0)\s(?:failed|failures?)\b(?=\W*$)",
        r"\btest_\w+[`*()]*\s(?:now\s)?no\slonger\s(?:fail|break)\w*",
        r"\bnothing\s(?:fails?|is\sfailing|breaks?|is\sbroken)\s(?:any\s?more|any\slonger|now)\b",
        r"\btests?\s(?:[\w']+\s){0,2}?(?:no\slonger|not|never|don't|doesn't|didn't|without)\s(?:\w+\s){0,2}?fail\w*",
    )
)
"""In which "no" and "not" are the claim's own."""
_NEGATION = (
    r"not|\w+n[’']t|never|cannot|nor|should|would|will|could|may|might|must|whether|if|until|unless|when"
    r"|once|expect\w*|hope\w*|verify|ensure|confirm\s(?:that|whether)|check|make\s(?:sure|certain)|before|how|why"
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
_DEPENDS = re.compile(
    r"\W*(?:(?:only\s)?(?:if|unless)|even\s(?:if|when)|when\sthere)\b", re.IGNORECASE
)
"""Behind what would be a claim."""
_CLAUSE = re.compile(r"[,;:()—]|\b(?:and|but|so|then)\b", re.IGNORECASE)
_FAILS = re.compile(
    r"\b(?:[1-9]\d*|one|two|three|some|several|many)\s(?:\w+\s){0,2}?(?:fails?|failed|failing|failures?)\b"
    r"(?!\s(?:tests?|cases?)\b)"
    r"|\b(?:which|that|still)\s(?:still\s)?(?:fails?|failing)\b|\b(?:and|but)\s\S*test\S*\s(?:still\s)?fails?\b"
    r"|\btest_\w+[`*()]*\s(?:still\s|now\s)?(?:fails?|errors?)\b"
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
