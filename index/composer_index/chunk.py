"""What parsing a file yields: its chunks, its definitions, or the reason why it was skipped.

Lines are 1-based and inclusive; they end at LF, CRLF or a lone CR, as in LSP 3.17, "Text
Documents". Paths are POSIX, relative to the workspace's root; names that do not decode keep their
bytes by `surrogateescape`.
"""

from dataclasses import dataclass
from typing import Literal

DefinitionKind = Literal[
    "class",
    "interface",
    "enum",
    "type",
    "function",
    "method",
    "macro",
    "module",
    "constant",
    "variable",
    "field",
    "heading",
    "table",
]
"""LSP's `SymbolKind` in words; "type" is an alias, "heading" a document's section."""

SkipReason = Literal[
    "binary",
    "generated",
    "minified",
    "huge",
    "unreadable",
    "secret",
    "ignored",
    "special",
    "deadly",
]
"""Parsing gives the first four; who lists and reads the files gives the others ("special": a FIFO,
a socket, a device; "deadly": parsing it ended the process, twice)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A run of whole lines that is embedded, searched and shown as one."""

    path: str
    """POSIX, relative to the workspace's root."""
    start_line: int
    """1-based."""
    end_line: int
    """Inclusive."""
    symbol: str
    """The definition that the chunk is, or lies in: "Class.method". Empty outside of any, and where
    the chunk holds several that nothing encloses."""
    signature: str
    """The head of that definition on one line; empty without one."""
    language: str
    """LSP language id; "plaintext" if unknown."""
    text: str
    """The source lines exactly, decoded, without the last one's ending."""
    content_hash: str
    """BLAKE2b-128 in hex over language, symbol and text: the key of all work that is shared."""
    identifiers: tuple[str, ...]
    """The distinct identifiers of the text, in order of appearance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """A name that a file defines, with the lines of the whole definition, decorators aside."""

    name: str
    """As it would be looked up: "method"."""
    kind: DefinitionKind
    symbol: str
    """With what encloses it: "Class.method"."""
    start_line: int
    """1-based."""
    end_line: int
    """Inclusive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedFile:
    """A text file, cut up. Its chunks hold every non-blank line once, in order."""

    path: str
    language: str
    """LSP language id; "plaintext" if unknown."""
    num_lines: int
    chunks: tuple[Chunk, ...]
    definitions: tuple[Definition, ...]
    """In order of their start."""
    imports: tuple[str, ...]
    """Module names or paths as written, distinct, in order. `from a import b` of Python gives "a"
    and "a.b", since either may be the file."""
    is_broken: bool
    """The grammar met an error, or gave up: what parsed is there all the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedFile:
    """A file that is not indexed."""

    path: str
    reason: SkipReason
