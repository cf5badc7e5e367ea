"""Which programs run tests. What is not known for sure to run some, and to fail with them, does not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from composer_lsp.agent.commands.command import Program

_TRUSTED_FOLDER = re.compile(
    r"(?x)/(?:usr|bin|opt|snap|nix)/(?:.*/)?"
    r"|(?:.*/)?(?:\.?v?env[\w.-]*|\.(?:tox|nox|conda)/[\w.-]+)/(?:bin|Scripts)/"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin)/"
    r"|/.*/(?:\.local|\.cargo|go|\.pyenv|\.nvm|\.asdf|[\w.-]*conda\d*|[\w.-]*forge\d*)/(?:.*/)?bin/"
)
"""Of programs that are named by a path: nobody puts a script of the project there."""
_WRAPPER_SCRIPTS = ("gradlew", "mvnw")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PYTHON_FLAGS = frozenset("BbdEIOPqsSuv")
_TARGET = re.compile(r"(?:unit|integration|e2e)?[-_:]?tests?(?:[-_:]+[\w:.-]+)?", re.IGNORECASE)
_NO_TARGET = re.compile(
    r"(?i)[-_:](?:deps?|clean|setup|install|list|help|data|env|fixtures?|compile|lint)$"
)
_MAKES_NOTHING = re.compile(
    r"(?:\.?SHELL(?:FLAGS)?|G?N?U?MAKEFLAGS|MFLAGS)=|\w+=(?:\S*/)?(?:true|:|echo)$"
)
_MAY_BE_ANY_OPTION = re.compile(r"-?|--[^=]*")
"""What is known of a word whose rest is not known."""
_RUNS_NONE = re.compile(
    r"--(?:co|collect-?only|help\S*|version|list\S*|show-?(?:only|config)|dry-?run|no-?run\S*|notest"
    r"|pass-?with-?no-?tests|if-present|init|print-config)(?:=.*)?",
    re.IGNORECASE,
)
"""Of any program."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """Of a program; `valued` take the next word where they hold no `=`."""

    valued: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()
    """With these it runs no tests, or does not fail with them. Long ones are `_RUNS_NONE` as well."""
    flags: frozenset[str] | None = None
    """None: any other option is a flag, or belongs to the tests."""
    joins: bool = False
    """Short ones may stand in one word, the value behind them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """A program whose arguments name what it does: one of `names`, or else a target for tests."""

    names: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    """Words that may come before a target's name, such as `run`."""
    has_targets: bool = False
    """Arguments are targets, and each is done."""
    options: _Options = field(default_factory=_Options)


_HELP = _words("-h -V")
_PROGRAMS: Mapping[str, _Options] = {
    "pytest": _Options(
        valued=_words("-k -m -n -p -c -r -o -W -e --override-ini"),
        none=_HELP
        | _words(
            "-? --fixtures --fixtures-per-test --funcargs --markers --setup-only --setuponly --setup-plan "
            "--setupplan --cache-show"
        ),
        joins=True,
    ),
    "unittest": _Options(valued=_words("-k -s -p -t"), none=_HELP, joins=True),
    "nose2": _Options(valued=_words("-s -t -c"), none=_HELP, joins=True),
    "tox": _Options(
        valued=_words("-e -c -x -r -m -f"), none=_HELP | _words("-l -a l list c config d devenv q")
    ),
    "nox": _Options(valued=_words("-s -e -k -t -f -p"), none=_HELP | _words("-l --install-only")),
    "jest": _Options(none=_HELP | _words("-v --clearCache")),
    "vitest": _Options(none=_HELP | _words("-v list init")),
    "mocha": _Options(none=_HELP),
    "ava": _Options(none=_HELP),
    "rspec": _Options(none=_HELP | _words("-v")),
    "minitest": _Options(none=_HELP),
    "phpunit": _Options(none=_HELP | _words("--atleast-version")),
    "ctest": _Options(none=_HELP | _words("-N -?")),
    "busted": _Options(none=_HELP),
    "bats": _Options(none=_words("-h -v -c --count")),
}
_ALIASES = {"py.test": "pytest", "gradlew": "gradle", "mvnw": "mvn"}
_NODE = _Task(
    names=_words("t"),
    behind=_words("run run-script task"),
    options=_Options(
        valued=_words("--prefix -C --dir --cwd --filter -F --workspace --config -c"), none=_HELP
    ),
)
_TASKS: Mapping[str, _Task] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "deno", "composer", "hatch", "pdm"), _NODE),
    "cargo": _Task(
        behind=_words("nextest"),
        options=_Options(
            valued=_words(
                "--manifest-path --config -Z -C --color -p --package --features --target"
            ),
            none=_HELP,
        ),
    ),
    "go": _Task(options=_Options(valued=_words("-C"), none=_words("-h -c -n -list -exec -help"))),
    "mvn": _Task(
        names=_words("verify install package"),
        has_targets=True,
        options=_Options(
            valued=_words("-f -pl -P -s -T -t --file --projects"),
            none=_words("-h -v -fn --fail-never"),
        ),
    ),
    "gradle": _Task(
        names=_words("check build"),
        has_targets=True,
        options=_Options(
            valued=_words("-p -b -c -I --tests --project-dir --build-file"),
            none=_HELP | _words("-v -m -x --exclude-task --tasks"),
        ),
    ),
    "dotnet": _Task(options=_Options(none=_HELP | _words("-t"))),
    "mix": _Task(options=_Options(none=_HELP)),
    "rake": _Task(
        has_targets=True,
        options=_Options(valued=_words("-f -C"), none=_HELP | _words("-n -P -T -W -D")),
    ),
    "make": _Task(
        has_targets=True,
        options=_Options(
            valued=_words("-C -f -I --directory --file --makefile"),
            none=_words(
                "-n -q -t -i -p -v -h -o --just-print --recon --question --touch --ignore-errors"
            )
            | _words("--eval --old-file --assume-old --print-data-base"),
            joins=True,
        ),
    ),
    "just": _Task(
        has_targets=True,
        options=_Options(
            valued=_words("-f -d --justfile --working-directory"),
            none=_HELP
            | _words("-n -l -s --show --evaluate --summary --choose --dump -c --command"),
        ),
    ),
    "swift": _Task(options=_Options(none=_HELP | _words("-l list"))),
    "zig": _Task(behind=_words("build"), options=_Options(none=_words("-h -l"))),
    "cabal": _Task(options=_Options(none=_HELP)),
    "stack": _Task(options=_Options(none=_HELP)),
    "sbt": _Task(has_targets=True, options=_Options(none=_HELP)),
    "bazel": _Task(options=_Options(none=_words("--nobuild"))),
}
_RUNNER_OPTIONS = _Options(
    valued=_words(
        "-p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group "
        "--only-group --package --project --directory --env-file --index --default-index --spec --from "
        "-C --cwd --prefix --filter --workspace"
    ),
    flags=_words(
        "-q -v -y -s --quiet --verbose --yes --no --no-install --silent --frozen --locked --no-sync "
        "--isolated --dev --no-dev --all-extras --all-groups --active --exact --offline --no-project "
        "--refresh --no-cache --system --managed-python --no-env-file --"
    ),
)
_RUNNERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pipx"), _words("run")),
    "bundle": _words("exec"),
    "npm": _words("exec x"),
    "pnpm": _words("exec dlx"),
    "yarn": _words("exec dlx run"),
    "bun": _words("x run"),
    **dict.fromkeys(("npx", "bunx", "uvx"), frozenset[str]()),
}
"""Programs that run another, and the words that it takes."""
_COVERAGE = _Options(
    valued=_words(
        "--source --source-pkgs --omit --include --rcfile --data-file --context --concurrency"
    ),
    flags=_words("-a -p -L --append --branch --parallel-mode --timid --pylib"),
)


def is_test(program: Program) -> bool:
    if any(
        word.text is None and _MAY_BE_ANY_OPTION.fullmatch(word.prefix) for word in program.words
    ):
        return False
    return _runs_tests([word.prefix if word.text is None else word.text for word in program.words])


def _runs_tests(words: Sequence[str]) -> bool:
    if not words:
        return False
    folder, slash, name = words[0].rpartition("/")
    if slash and name not in _WRAPPER_SCRIPTS and not _TRUSTED_FOLDER.fullmatch(folder + slash):
        return False
    name, args = _ALIASES.get(name, name), words[1:]
    if _PYTHON.fullmatch(name):
        return _module_tests(_behind_python_options(args))
    if name == "coverage":
        return _covered(args)
    if name in _PROGRAMS:
        return _tests_with(_PROGRAMS[name], args)
    return _run_by(name, args) or (name in _TASKS and _does_test(name, _TASKS[name], args))


def _behind_python_options(args: Sequence[str]) -> Sequence[str]:
    """The module's name and its arguments; nothing if no module is run."""
    words = list(args)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-W", "-X"):
            words = words[1:]
            continue
        if word.startswith(("-W", "-X")):
            continue
        flags, is_module, joined = word[1:].partition("m")
        if not set(flags) <= _PYTHON_FLAGS or (not flags and not is_module):
            return ()
        if is_module:
            return [joined, *words] if joined else words
    return ()


def _module_tests(words: Sequence[str]) -> bool:
    if not words:
        return False
    if words[0] == "coverage":
        return _covered(words[1:])
    return words[0] in ("pytest", "unittest", "nose2", "tox", "nox") and _tests_with(
        _PROGRAMS[words[0]], words[1:]
    )


def _covered(args: Sequence[str]) -> bool:
    if args[:1] != ["run"]:
        return False
    rest = _behind_options(_COVERAGE, args[1:])
    if rest[:1] in (["-m"], ["--module"]):
        return _module_tests(rest[1:])
    return _runs_tests(rest)


def _run_by(name: str, args: Sequence[str]) -> bool:
    takes = _RUNNERS.get(name)
    if takes is None:
        return False
    if takes:
        args = _behind_options(_RUNNER_OPTIONS, args)
        if not args or args[0] not in takes:
            return (
                name in ("yarn", "pnpm")
                and bool(args)
                and args[0] in _PROGRAMS
                and _runs_tests(args)
            )
        args = args[1:]
    rest = _behind_options(_RUNNER_OPTIONS, args)
    if name == "uv" and rest[:1] in (["-m"], ["--module"]):
        return _module_tests(rest[1:])
    return _runs_tests(rest)


def _behind_options(options: _Options, args: Sequence[str]) -> list[str]:
    """From the first word on that is neither an option that is known nor the value of one."""
    words = list(args)
    while words and words[0].startswith("-"):
        name, equals, _ = words[0].partition("=")
        if name in options.valued:
            words = words[1 if equals else 2 :]
        elif options.flags is None or name in options.flags:
            words = words[1:]
        else:
            break
    return words


def _tests_with(options: _Options, args: Sequence[str]) -> bool:
    """Whether a program that runs tests does so with these arguments."""
    words = list(args)
    while words:
        word = words.pop(0)
        value = None
        name, equals, joined = word.partition("=")
        if options.joins and word.startswith("-") and not word.startswith("--"):
            letters = [f"-{letter}" for letter in word[1:]]
            at = next((i for i, each in enumerate(letters) if each in options.valued), len(letters))
            if any(each in options.none for each in letters[:at]):
                return False
            name, joined = (letters[at], word[at + 2 :]) if at < len(letters) else ("", "")
            equals = joined
        elif name in options.none or _RUNS_NONE.fullmatch(word) or word.startswith("@"):
            return False
        if name in options.valued:
            value = joined if equals else (words.pop(0) if words else "")
        if value is not None and "addopts" in value:
            return False
    return True


def _does_test(name: str, task: _Task, args: Sequence[str]) -> bool:
    if not _tests_with(task.options, args) or any(map(_MAKES_NOTHING.match, args)):
        return False
    if any(
        word.startswith(("-DskipTests", "-Dmaven.test.", "-DtestFailureIgnore")) for word in args
    ):
        return False
    words = _positional(task.options, args)
    if name == "cargo" and words and words[0].startswith("+"):
        words = words[1:]
    if task.has_targets:
        return any(_is_target(word) or word in task.names for word in words)
    if name == "yarn":
        words = words[2:] if words[:1] == ["workspace"] else words
        words = [word for word in words if word not in ("workspaces", "foreach")]
    if words and words[0] in task.behind:
        is_nextest = words[0] == "nextest"
        words = words[1:]
        if is_nextest:
            return words[:1] == ["run"]
    return bool(words) and (_is_target(words[0]) or words[0] in task.names)


def _positional(options: _Options, args: Sequence[str]) -> list[str]:
    found: list[str] = []
    words = list(args)
    while words:
        rest = _behind_options(options, words)
        if not rest or rest[0] == "--":
            break
        found.append(rest[0])
        words = rest[1:]
    return found


def _is_target(word: str) -> bool:
    """`:app:test` of Gradle too."""
    name = word.rpartition(":")[2] if word.startswith(":") else word
    return _TARGET.fullmatch(name) is not None and not _NO_TARGET.search(name)
