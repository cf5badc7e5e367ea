"""Settings: what a user can configure, parsed once at the boundary.

Editors send them as the `composer` section (`initializationOptions`, `workspace/configuration` and
`workspace/didChangeConfiguration`), in camelCase. The string under each field is its
documentation: the table in the README and the VS Code settings schema are generated from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ModelDownload = Literal["ask", "always", "never"]
Guidance = Literal["auto", "always", "never"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleSettings:
    """Which model answers for one role, and where."""

    model: str = "auto"
    """Model name. `auto` picks by memory and cores (`composer-lsp doctor` says which and why); with a `url`, the name that the server knows, and `auto` is the first it lists."""
    url: str = ""
    """Base URL of an OpenAI-compatible server, such as `http://127.0.0.1:8080/v1`. Empty: the local engine; nothing leaves the machine."""
    api_key_env: str = ""
    """Name of the environment variable that holds the key for `url`. Empty: no key is sent."""
    timeout_s: float = 30.0
    """Seconds that a request to `url` may stay without an answer. 0: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TabSettings(RoleSettings):
    """Ghost text while typing."""

    enabled: bool = True
    """Suggest while typing. Explicit requests are answered even when this is off."""
    fim_template: str = "auto"
    """How the text around the cursor becomes a prompt: `auto` (by the model's name), a template's name (`composer-lsp complete --help` lists them), `suffix` (the server's own `suffix` field) or `infill` (llama.cpp's `/infill`)."""
    max_tokens: int = 64
    """Longest suggestion, in tokens."""
    context_tokens: int = 1536
    """Prompt budget around the cursor, in tokens: two thirds before it, one third after it."""
    retrieval: bool = True
    """Begin prompts with text of other files that may help: what the file imports, what is alike, its test. It is found by the index (`composer.index.enabled`), and computed while you rest."""
    prepare_ahead: bool = True
    """Have the engine read a long prompt, other files' text included, while you rest at a place, so that the next keystroke need not wait for it. Off: it reads when you type, and other files' text is left out where that takes too long."""
    min_score: float = 0.45
    """How likely a suggestion has to be the wanted one to be shown unasked, from 0 to 1, by what the model said of its tokens. 0 shows all. Only the engine on this machine tells."""
    auto_import: bool = True
    """After a suggestion is accepted, import what it uses and one file of the workspace defines. Python, JavaScript and TypeScript."""
    debounce_ms: int = 20
    """Shortest wait after a keystroke, in milliseconds; it grows with fast typing to at most ten times this. Explicit requests never wait."""
    disabled_languages: tuple[str, ...] = ()
    """Language ids without automatic suggestions, such as `markdown`."""
    disabled_paths: tuple[str, ...] = ()
    """Globs in git-ignore syntax; files that match get no automatic suggestions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextEditSettings:
    """Where and what to change next, by what was just changed."""

    enabled: bool = True
    """Propose the next edit after an edit: other uses of a name that was changed, calls of a function with other parameters, the same change again, imports left over, problems caused. Off wherever suggestions are. Explicit requests are answered even when this is off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings(RoleSettings):
    """The model of the agent."""

    temperature: float = 0.2
    """How much chance there is in an answer. 0: none."""
    guidance: Guidance = "auto"
    """Whether the model is led by the hand, as small ones have to be: questions are answered from what a search finds, and changes are written as whole functions and classes, which are put in place and tested. `auto`: models whose name tells fewer than 5 billion parameters; `always`; `never`."""
    command_rules: tuple[str, ...] = ()
    """What the agent's commands may do: each begins with `allow`, `ask` or `deny`, then the words of a program, such as `allow pytest *` or `deny git push *`. Deny goes before ask, and ask before allow. What no rule names and is not known to be harmless is asked about."""
    sandbox_read_only_paths: tuple[str, ...] = ()
    """Files and folders of your home folder that commands may read, such as `~/data`: absolute, or beginning with `~/`. They see none of it else, but for the toolchains on your PATH."""
    command_timeout_s: float = 120.0
    """Seconds after which a command is ended, if the model asks for no other limit."""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Tool servers (MCP) by their names, as other tools have them: `{"docs": {"command": "npx", "args": ["-y", "docs"]}}`, or with a `url`. Each is asked about before it is used."""
    code_actions: bool = True
    """Offer code actions: ask, explain, fix, edit, write tests, and what is pending."""
    code_lens: bool = True
    """Show Accept and Reject as code lenses above the changes that are pending."""
    review: bool = False
    """When changes are accepted, have the editor ask about each of them, where it can. Single hunks that are accepted are not asked about again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """The engine process on this machine, shared by all windows. The window that starts it decides."""

    threads: int = 0
    """Threads to compute with. 0: one per physical core."""
    context_tokens: int = 8192
    """Context of one request, in tokens."""
    idle_exit_s: int = 900
    """Seconds without a request after which the engine leaves; the next request starts it again. 0: never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderSettings(RoleSettings):
    """The model by which the index finds code by its meaning."""

    model: str = "static"
    """What makes vectors of code, to find it by meaning. `static`: the table that comes with Composer. Else an embedding model: one of the engine's, such as `bge-small-en`, or with a `url` the name that the server knows. Its vectors are filled in while nothing else is to be done, and the table answers until all are there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankerSettings(RoleSettings):
    """The model that takes a second look at what the index finds."""

    model: str = ""
    """A model that reads the best 30 results of a search again, together with the question: one of the engine's, such as `ms-marco-minilm-l12`, or with a `url` the name that the server knows. Empty: none."""
    timeout_s: float = 2.0
    """Seconds that a search waits for it; then the results come as they were ranked. 0: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexSettings:
    """What the workspace's code is found by. It lies in the user's cache folder."""

    enabled: bool = True
    """Index the window's folders, in a process of its own at a low priority."""
    include_secret: tuple[str, ...] = ()
    """Files that hold secrets by their names (`.env`, keys) and are to be indexed all the same: patterns in git-ignore syntax, relative to the folder."""
    workspace_symbols: bool = True
    """Answer the editor's search for symbols of the workspace. Another language server of yours may do it better."""
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    reranker: RerankerSettings = field(default_factory=RerankerSettings)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    tab: TabSettings = field(default_factory=TabSettings)
    next_edit: NextEditSettings = field(default_factory=NextEditSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    model_download: ModelDownload = "ask"
    """What to do when the chosen model is not on this machine: `ask` first, fetch it `always`, or `never`."""
