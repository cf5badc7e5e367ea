"""Whether the output of a test command says that no test ran, which many programs end with code 0."""

import re

_NONE = re.compile(
    r"""(?xim)
    \bno\ tests?\ (?:ran|run|found|to\ run|executed|selected|matched|were\ (?:run|found|executed))\b
    |\bthere\ are\ no\ tests\ to\ run\b
    |\bno\ (?:test\ files?|tests?\ modules?|examples?|tests?\ targets?)\ (?:were\ )?found\b
    |\[no\ test\ files\]|:test\w*\ NO-SOURCE\b
    |\bno\ test\ (?:is\ available|matches)\b
    |\brunning\ 0\ tests\b|\btest\ result:\ ok\.\ 0\ passed\b|\bstarting\ 0\ tests\b|\bran\ 0\ tests\b|\bexecuted\ 0\ tests\b
    |\btests?\ run:\ 0\b|\b0\ tests?\ run\b|\ball\ 0\ tests\ passed\b
    |\b(?<![.\d])0\ (?:passing|examples|runs|tests|successes)\b|(?<![.\d])0\ pass$
    |^[\#ℹ]\ tests\ 0$|^1\.\.0\b|\bResult:\ NOTESTS\b|\bTests=0\b
    |^=*\s*(?:\d+\ (?:skipped|deselected|warnings?)(?:,\s*)?)+\ in\ [\d.]+\ ?s
    |^\s*Tests:?\s+\d+\ (?:skipped|todo)\b
    """
)
_SOME = re.compile(
    r"""(?xim)
    (?<![.\d])[1-9]\d*\ (?:tests?\ )?(?:passed|passing|pass|succeeded|success(?:es)?|failed|failing|xfailed)\b
    |^ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?!.*\[no\ tests\ to\ run\])
    |^\s*---\ (?:PASS|FAIL):|^ok\ [1-9]\d*\b
    |\bran\ [1-9]\d*\ tests?\b|\bexecuted\ [1-9]\d*\ tests?\b|\btests?\ run:\ [1-9]
    |(?<![.\d])[1-9]\d*\ (?:runs|examples?|tests?),\ \d+\ (?:assertions|failures)\b
    |\bOK\ \([1-9]\d*\ tests?\b|\btests\ failed\ out\ of\ [1-9]|\bpassed:\s+[1-9]
    |\btest\ run\ with\ [1-9]|^>\ Task\ :\S*test\w*(?:\ UP-TO-DATE|\ FROM-CACHE)?$
    |\ball\ [1-9]\d*\ tests\ passed\b|^[\#ℹ]\ pass\ [1-9]|\bTests=[1-9]
    """
)


def ran_no_test(output: str) -> bool:
    """Whether a program says that it ran none, and no other says that it ran some. `output`: as it
    is shown, without escapes. Of one that is not known, or is silent, nothing is said."""
    return _NONE.search(output) is not None and _SOME.search(output) is None
