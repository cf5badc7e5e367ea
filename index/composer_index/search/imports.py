"""From what a file imports, as written, to files of the workspace that it may mean.

A guess by the languages' habits, without their build files: each name gives paths that would be it,
relative to the importing file or to a folder above it, and endings of paths, for source roots that
only a build file knows. Whoever asks knows which of them exist.
"""

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where an import may lead, the likeliest first."""

    paths: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    """A path's last components; one that ends in `/` is any file of that folder."""


def places(path: str, language: str, name: str) -> Places:
    """Returns where `name`, imported by the file at `path`, may be; nothing for a language that has
    no rule here."""
    rule = _RULES.get(language)
    if rule is None or not name or len(name) > 300:
        return Places()
    found = rule(path, name)
    return Places(
        paths=tuple(dict.fromkeys(map(posixpath.normpath, found.paths))), endings=found.endings
    )


def _python(path: str, name: str) -> Places:
    folder = posixpath.dirname(path)
    bare = name.lstrip(".")
    parts = bare.split(".") if bare else []
    if name.startswith("."):
        for _ in range(len(name) - len(bare) - 1):
            folder = posixpath.dirname(folder)
        return Places(paths=_module(posixpath.join(folder, *parts)))
    inside = "/".join(parts)
    paths = [each for above in _above(folder) for each in _module(posixpath.join(above, inside))]
    paths += _module(f"src/{inside}")
    return Places(paths=tuple(paths), endings=_module(inside) if len(parts) > 1 else ())


def _module(path: str) -> tuple[str, ...]:
    return (f"{path}.py", f"{path}/__init__.py", f"{path}.pyi") if path else ("__init__.py",)


_SCRIPTS = (".ts", ".tsx", ".d.ts", ".mts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte")


def _javascript(path: str, name: str) -> Places:
    if name.startswith("."):
        return Places(paths=_script(posixpath.join(posixpath.dirname(path), name)))
    alias = re.match(r"[@~#]?/(.+)", name)
    if alias:
        above = _above(posixpath.dirname(path))
        roots = [posixpath.join(each, part) for each in above for part in ("src", "app", "")]
        return Places(
            paths=tuple(p for root in roots for p in _script(posixpath.join(root, alias[1])))
        )
    return Places()


def _script(path: str) -> tuple[str, ...]:
    # TypeScript imports `./a.js` for `./a.ts`.
    bare = re.sub(r"\.[cm]?jsx?$", "", path)
    every = [path, *(bare + end for end in _SCRIPTS), *(f"{path}/index{end}" for end in _SCRIPTS)]
    return tuple(every)


def _go(path: str, name: str) -> Places:
    parts = name.split("/")
    if "." not in parts[0]:
        return Places()  # the standard library's
    # host/owner/module/folder…: how much of it the module's name is, go.mod would say.
    tails = ["/".join(parts[start:]) for start in range(2, len(parts))]
    return Places(endings=tuple(f"{tail}/" for tail in tails))


def _rust(path: str, name: str) -> Places:
    folder, stem = posixpath.split(path)
    stem = stem.removesuffix(".rs")
    inside = folder if stem in ("mod", "lib", "main") else posixpath.join(folder, stem)
    found: list[str] = []
    endings: list[str] = []
    for written in _spread(name):
        parts = written.split("::")
        if parts[0] == "crate":
            root = path[: path.find("src/") + 4] if "src/" in path else ""
            found += _crate(root, parts[1:])
        elif parts[0] in ("self", "super"):
            at = inside
            while parts and parts[0] in ("self", "super"):
                at = posixpath.dirname(at) if parts.pop(0) == "super" else at
            found += _crate(at, parts)
        elif len(parts) == 1:
            found += _crate(inside, parts) + _crate(folder, parts)
        elif parts[0] not in ("std", "core", "alloc"):
            package = parts[0].replace("_", "-")
            for name_ in dict.fromkeys((package, parts[0])):
                endings += [f"{name_}/src/{each}" for each in [*_crate("", parts[1:]), "lib.rs"]]
    return Places(paths=tuple(found), endings=tuple(endings))


def _spread(name: str) -> list[str]:
    """`a::{b, c::D}` to `a::b` and `a::c::D`; deeper braces count as one."""
    match = re.fullmatch(r"([^{]*)\{(.*)\}", name)
    if match is None:
        return [re.sub(r"as\w+$|::\*$", "", name)]
    members = re.split(r",(?![^{]*\})", match[2])
    return [re.sub(r"(::)?\{.*|::\*$", "", match[1] + each) for each in members[:20]]


def _crate(root: str, parts: list[str]) -> list[str]:
    """The last parts may be items, not modules."""
    ends = [posixpath.join(root, *parts[:length]) for length in range(len(parts), 0, -1)]
    return [path for end in ends for path in (f"{end}.rs", f"{end}/mod.rs")]


def _java(path: str, name: str) -> Places:
    parts = name.split(".")
    if len(parts) < 2 or parts[0] in ("java", "javax"):
        return Places()
    end = posixpath.splitext(path)[1] or ".java"
    classes = ["/".join(parts), "/".join(parts[:-1])]  # the last may be a static member
    return Places(endings=tuple(f"{each}{end}" for each in classes if "/" in each))


def _c(path: str, name: str) -> Places:
    folder = posixpath.dirname(path)
    roots = [each for above in _above(folder) for each in (above, f"{above}/include")]
    paths = [posixpath.join(root, name).lstrip("/") for root in roots]
    return Places(paths=tuple(paths), endings=(name,) if "/" in name else ())


def _ruby(path: str, name: str) -> Places:
    file = name if name.endswith(".rb") else f"{name}.rb"
    paths = [posixpath.join(posixpath.dirname(path), file), f"lib/{file}", f"app/{file}"]
    return Places(paths=tuple(paths), endings=(file,) if "/" in name else ())


def _php(path: str, name: str) -> Places:
    if "\\" not in name:
        return Places(paths=(posixpath.join(posixpath.dirname(path), name),))
    parts = name.strip("\\").split("\\")
    tails = ["/".join(parts[start:]) + ".php" for start in range(max(1, len(parts) - 1))]
    return Places(endings=tuple(tail for tail in tails if "/" in tail))


def _lua(path: str, name: str) -> Places:
    inside = name.replace(".", "/")
    paths = [f"{root}{inside}{end}" for root in ("", "lua/") for end in (".lua", "/init.lua")]
    return Places(paths=tuple(paths), endings=(f"{inside}.lua",) if "/" in inside else ())


def _above(folder: str) -> Iterable[str]:
    """The folder and those above it, the nearest first, the root as ""."""
    while folder:
        yield folder
        folder = posixpath.dirname(folder)
    yield ""


_RULES: dict[str, Callable[[str, str], Places]] = {
    "python": _python,
    **dict.fromkeys(
        ("javascript", "javascriptreact", "typescript", "typescriptreact", "vue"), _javascript
    ),
    "go": _go,
    "rust": _rust,
    **dict.fromkeys(("java", "kotlin", "scala"), _java),
    **dict.fromkeys(("c", "cpp", "objective-c", "cuda-cpp"), _c),
    "ruby": _ruby,
    "php": _php,
    "lua": _lua,
}
