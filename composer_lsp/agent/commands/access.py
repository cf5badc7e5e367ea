"""What a command needs beyond the plain sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass

from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.harmless import is_harmless
from composer_lsp.agent.commands.rules import trusted_name

_ALWAYS_NETWORK = frozenset(
    [
        "apt",
        "apt-get",
        "brew",
        "curl",
        "dig",
        "dnf",
        "docker",
        "ftp",
        "gh",
        "host",
        "nc",
        "ncat",
        "npx",
        "nslookup",
        "ping",
        "podman",
        "rsync",
        "scp",
        "sftp",
        "ssh",
        "telnet",
        "wget",
    ]
)
_INSTALLING = "install i ci add update upgrade up audit outdated view publish exec dlx x create"
_NETWORK_SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset(_INSTALLING.split())),
    **dict.fromkeys(("pip", "pip3"), frozenset({"install", "download", "wheel", "index"})),
    "bundle": frozenset({"install", "update", "add"}),
    "cargo": frozenset(["add", "fetch", "install", "publish", "search", "update"]),
    "composer": frozenset({"install", "update", "require"}),
    "gem": frozenset({"install", "update"}),
    "git": frozenset(["clone", "fetch", "ls-remote", "pull", "push", "submodule"]),
    "go": frozenset({"get", "install", "mod"}),
    "poetry": frozenset(["add", "install", "lock", "update", "publish"]),
    "uv": frozenset(["add", "lock", "pip", "sync", "tool", "publish"]),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    network: bool = False
    """The machine's network, and with it the services that listen on it."""
    git: bool = False
    """Writing to the repository's own folder, but for its hooks and configuration."""

    def __or__(self, other: "Access") -> "Access":
        return Access(network=self.network or other.network, git=self.git or other.git)

    def __str__(self) -> str:
        names = (("the network", self.network), ("writing to .git", self.git))
        return " and ".join(name for name, is_wanted in names if is_wanted)


def needed_access(program: Program) -> Access:
    """By its name and subcommand: a guess, for asking the right question. What is not guessed is
    refused by the sandbox."""
    name = trusted_name(program)
    words = {word.text for word in program.args if not word.may_be_option}
    return Access(
        network=name in _ALWAYS_NETWORK
        or bool(words & _NETWORK_SUBCOMMANDS.get(name, frozenset())),
        git=name == "git" and not is_harmless(program),
    )
