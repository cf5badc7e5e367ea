"""The languages that the index knows: their files, and the grammar that cuts them up.

Ids are LSP's (3.17, `TextDocumentItem.languageId`). A language without a grammar is cut into windows
of lines. What a language defines and imports stands in `parsing/queries/<grammar>.scm`.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_C_PLUS_PLUS = re.compile(
    rb"^\s*(?:class\s+\w|namespace[\s{]|template\s*<|using\s+\w|(?:public|private|protected)\s*:)",
    re.MULTILINE,
)
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/)?([A-Za-z]+)[\d.]*(?:[ \t]+(?:-\S+[ \t]+)*([A-Za-z]+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """One language of the table."""

    id: str
    """LSP language id."""
    extensions: tuple[str, ...] = ()
    """With the dot, lower-case."""
    names: tuple[str, ...] = ()
    """Whole file names, lower-case."""
    interpreters: tuple[str, ...] = ()
    """Programs that a `#!` line may name, without their version."""
    grammar: str = ""
    """The grammar's wheel and query: "python" is `tree_sitter_python` and `python.scm`."""
    entry: str = "language"
    """The wheel's function that returns the grammar."""
    separator: str = "."
    """Between the parts of a symbol."""
    has_hyphens: bool = False
    """Identifiers may hold "-"."""
    is_prose: bool = False
    """Long lines are normal."""
    is_ascii_only: bool = False
    """Hide non-ASCII letters from the grammar, whose scanner calls `ctype.h` on code points."""


_TABLE = (
    Language(
        id="python",
        extensions=(".py", ".pyi", ".pyw"),
        names=("sconstruct", "sconscript", "wscript"),
        interpreters=("python", "pypy"),
        grammar="python",
    ),
    Language(
        id="javascript",
        extensions=(".js", ".mjs", ".cjs"),
        interpreters=("node", "nodejs"),
        grammar="javascript",
    ),
    Language(id="javascriptreact", extensions=(".jsx",), grammar="javascript"),
    Language(
        id="typescript",
        extensions=(".ts", ".mts", ".cts"),
        interpreters=("deno", "bun"),
        grammar="typescript",
        entry="language_typescript",
    ),
    Language(
        id="typescriptreact",
        extensions=(".tsx",),
        grammar="typescript",
        entry="language_tsx",
    ),
    Language(id="go", extensions=(".go",), grammar="go"),
    Language(id="rust", extensions=(".rs",), grammar="rust"),
    Language(id="java", extensions=(".java",), grammar="java"),
    Language(id="c", extensions=(".c", ".h"), grammar="c"),
    Language(
        id="cpp",
        extensions=(
            *(".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl"),
            *(".tcc", ".cu", ".cuh", ".ino"),
        ),
        grammar="cpp",
    ),
    Language(id="csharp", extensions=(".cs", ".csx"), grammar="c_sharp"),
    Language(
        id="ruby",
        extensions=(".rb", ".rake", ".gemspec", ".ru"),
        names=("rakefile", "gemfile", "guardfile", "podfile", "vagrantfile", "brewfile"),
        interpreters=("ruby",),
        grammar="ruby",
    ),
    Language(
        id="php",
        extensions=(".php", ".phtml", ".inc"),
        interpreters=("php",),
        grammar="php",
        entry="language_php",
    ),
    Language(
        id="lua",
        extensions=(".lua",),
        interpreters=("lua", "luajit"),
        grammar="lua",
    ),
    Language(
        id="shellscript",
        extensions=(".sh", ".bash", ".zsh", ".ksh", ".bats"),
        names=("pkgbuild", ".bashrc", ".profile", ".bash_profile", ".zshrc", "configure"),
        interpreters=("sh", "bash", "dash", "zsh", "ksh", "ash"),
        grammar="bash",
        is_ascii_only=True,
    ),
    Language(id="html", extensions=(".html", ".htm", ".xhtml"), grammar="html", has_hyphens=True),
    Language(id="css", extensions=(".css",), grammar="css", separator=" ", has_hyphens=True),
    Language(
        id="json",
        extensions=(".json", ".webmanifest", ".geojson", ".ipynb"),
        names=(".babelrc", ".eslintrc", ".prettierrc"),
        grammar="json",
        has_hyphens=True,
    ),
    Language(
        id="jsonc",
        extensions=(".jsonc", ".json5", ".code-workspace"),
        names=("tsconfig.json", "jsconfig.json"),
        grammar="json",
        has_hyphens=True,
    ),
    Language(
        id="yaml",
        extensions=(".yaml", ".yml"),
        names=(".clang-format", ".clang-tidy"),
        grammar="yaml",
        has_hyphens=True,
    ),
    Language(
        id="toml",
        extensions=(".toml",),
        names=("pipfile",),
        grammar="toml",
        has_hyphens=True,
    ),
    Language(
        id="markdown",
        extensions=(".md", ".markdown", ".mdx", ".mkd"),
        grammar="markdown",
        separator=" > ",
        is_prose=True,
        is_ascii_only=True,
    ),
    Language(id="sql", extensions=(".sql", ".ddl", ".psql"), grammar="sql"),
    Language(id="bat", extensions=(".bat", ".cmd")),
    Language(id="clojure", extensions=(".clj", ".cljs", ".cljc", ".edn"), has_hyphens=True),
    Language(id="cmake", extensions=(".cmake",), names=("cmakelists.txt",)),
    Language(id="dart", extensions=(".dart",)),
    Language(id="dockerfile", extensions=(".dockerfile",), names=("dockerfile", "containerfile")),
    Language(id="elixir", extensions=(".ex", ".exs")),
    Language(id="erlang", extensions=(".erl", ".hrl")),
    Language(id="fsharp", extensions=(".fs", ".fsi", ".fsx")),
    Language(id="groovy", extensions=(".groovy", ".gradle"), names=("jenkinsfile",)),
    Language(id="haskell", extensions=(".hs", ".lhs")),
    Language(id="ini", extensions=(".ini", ".cfg", ".conf", ".properties")),
    Language(id="julia", extensions=(".jl",), interpreters=("julia",)),
    Language(id="kotlin", extensions=(".kt", ".kts")),
    Language(id="less", extensions=(".less",), has_hyphens=True),
    Language(id="makefile", extensions=(".mk",), names=("makefile", "gnumakefile")),
    Language(id="objective-c", extensions=(".m",)),
    Language(id="objective-cpp", extensions=(".mm",)),
    Language(id="ocaml", extensions=(".ml", ".mli")),
    Language(id="perl", extensions=(".pl", ".pm", ".t"), interpreters=("perl",)),
    Language(id="powershell", extensions=(".ps1", ".psm1", ".psd1")),
    Language(id="proto", extensions=(".proto",)),
    Language(id="r", extensions=(".r",), interpreters=("Rscript",)),
    Language(id="restructuredtext", extensions=(".rst",), is_prose=True),
    Language(id="scala", extensions=(".scala", ".sc")),
    Language(id="scss", extensions=(".scss", ".sass"), has_hyphens=True),
    Language(id="svelte", extensions=(".svelte",), grammar="html", has_hyphens=True),
    Language(id="swift", extensions=(".swift",)),
    Language(id="tcl", extensions=(".tcl",), interpreters=("tclsh",)),
    Language(id="terraform", extensions=(".tf", ".tfvars", ".hcl"), has_hyphens=True),
    Language(id="tex", extensions=(".tex", ".sty", ".cls"), is_prose=True),
    Language(id="vue", extensions=(".vue",), grammar="html", has_hyphens=True),
    Language(id="xml", extensions=(".xml", ".xsd", ".xsl", ".svg", ".csproj", ".plist")),
    Language(id="zig", extensions=(".zig",)),
)

PLAINTEXT = Language(id="plaintext", is_prose=True)
"""What no other language of the table claims."""

LANGUAGES = {language.id: language for language in (*_TABLE, PLAINTEXT)}
"""By LSP language id."""

_BY_EXTENSION = {extension: one for one in _TABLE for extension in one.extensions}
_BY_NAME = {name: one for one in _TABLE for name in one.names}
_BY_INTERPRETER = {program: one for one in _TABLE for program in one.interpreters}
_BY_NICKNAME = {"c++": "cpp", "c#": "csharp", "shell": "shellscript", "golang": "go"}


def language_named(name: str) -> Language | None:
    """The language that people call so: by its id, an extension, or an interpreter."""
    name = name.lower()
    return (
        LANGUAGES.get(_BY_NICKNAME.get(name, name))
        or _BY_EXTENSION.get(f".{name}")
        or _BY_INTERPRETER.get(name.rstrip(".0123456789"))
    )


def language_of(path: str, source: bytes) -> Language:
    """The language of a file by its name, its extension, or its `#!` line.

    A header `.h` is C++ where it looks like it.
    """
    name = path.rpartition("/")[2].lower()
    language = _BY_NAME.get(name) or _BY_EXTENSION.get(PurePosixPath(name).suffix)
    if language is None and name.startswith("dockerfile."):
        language = LANGUAGES["dockerfile"]
    if language is None and source.startswith(b"#!"):
        language = _by_shebang(source[:200])
    if language is None:
        return PLAINTEXT
    if name.endswith(".h") and _C_PLUS_PLUS.search(source):
        return LANGUAGES["cpp"]
    return language


def _by_shebang(head: bytes) -> Language | None:
    found = _SHEBANG.match(head)
    if found is None:
        return None
    program, argument = found.groups()
    chosen = argument if program == b"env" and argument else program
    return _BY_INTERPRETER.get(chosen.decode())
