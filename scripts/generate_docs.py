"""Writes the documents that follow from the code: `python scripts/generate_docs.py [--check]`.

- `docs/configuration.md` and `README.md`: the table of settings, from `composer_lsp/config.py`
- `docs/cli.md`: every command and its options, from the command line's own parser
- `editor-clients/vscode/package.json`: version, settings schema and what an untrusted folder may not set

In Markdown only the text between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is written; the
rest is prose. `--check` writes nothing and fails when something is stale.
"""

import argparse
import ast
import dataclasses
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import composer_lsp
from composer_lsp import config
from composer_lsp.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE_JSON = Path("editor-clients/vscode/package.json")

_MACHINE_FIELDS = frozenset(
    {
        "model",
        "url",
        "api_key_env",
        "timeout_s",
        "model_download",
        "include_secret",
        "command_timeout_s",
    }
)
"""Fields that say where text is sent, what is downloaded, or what the machine bears: VS Code keeps
them apart for every machine, and a folder that is not trusted cannot set them."""

_USER_FIELDS = frozenset({"command_rules", "mcp_servers", "sandbox_read_only_paths"})
"""Fields that no folder may set at all, since they name what may run on this machine, and commands
can write there."""

_MAX_CHOICES_SHOWN = 4
"""Longer lists of choices are left to the option's help."""

_CLIENT_SETTINGS: dict[str, dict[str, Any]] = {
    "composer.server.command": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "scope": "machine-overridable",
        "markdownDescription": "Program and arguments that start the language server, such as"
        ' `["~/venvs/composer/bin/composer-lsp", "serve"]`; `~`, `${userHome}` and'
        " `${workspaceFolder}` are replaced. Empty: `composer-lsp serve` from the active Python"
        " environment, else from `VIRTUAL_ENV`, else from the `PATH`.",
    }
}
"""What only the VS Code extension reads."""


class MissingMarkerError(ValueError):
    """A document lacks the comments between which generated text belongs."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    key: str
    """As editors write it, such as `composer.tab.maxTokens`."""
    group: str
    """The docstring of the dataclass that holds it, without the full stop of its first sentence."""
    type: Any
    default: Any
    documentation: str
    scope: str
    """As VS Code has it."""


# --- Settings -----------------------------------------------------------------------------------


def settings() -> list[Setting]:
    """Every setting of the server, in the order of the dataclasses; single values come last."""
    found = list(_settings_of(config.Settings, "composer", "General"))
    return sorted(found, key=lambda setting: setting.key.count(".") == 1)


def _settings_of(cls: type, prefix: str, group: str) -> Iterator[Setting]:
    hints = get_type_hints(cls)
    documentation = field_documentation(cls)
    for field in dataclasses.fields(cls):
        key = f"{prefix}.{_camel_case(field.name)}"
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _settings_of(kind, key, _first_sentence(kind))
            continue
        yield Setting(
            key=key,
            group=group,
            type=kind,
            default=_default(field),
            documentation=documentation[field.name],
            scope=_scope(cls, field.name),
        )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _scope(cls: type, name: str) -> str:
    if name in _USER_FIELDS:
        return "machine"
    if name in _MACHINE_FIELDS or cls is config.EngineSettings:
        return "machine-overridable"
    return "window"


def field_documentation(cls: type) -> dict[str, str]:
    """The string under each field of a dataclass, its bases' included.

    Raises: KeyError by the caller's look-up for a field without one.
    """
    documentation: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        documentation |= _own_field_documentation(base)
    return documentation


def _own_field_documentation(cls: type) -> dict[str, str]:
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _first_sentence(cls: type) -> str:
    return (inspect.getdoc(cls) or cls.__name__).split(".")[0]


def settings_table() -> str:
    rows = [
        f"| `{setting.key}` | `{json.dumps(as_json(setting.default))}` | {_cell(setting.documentation)} |"
        for setting in settings()
    ]
    return "\n".join(["| Setting | Default | Meaning |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def as_json(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


# --- VS Code ------------------------------------------------------------------------------------


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a setting's type.

    Raises: TypeError for a type that no setting had so far.
    """
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": json_schema(get_args(kind)[0])}
    if get_origin(kind) is Mapping:
        return {"type": "object", "additionalProperties": {"type": "object"}}
    simple = {
        bool: {"type": "boolean"},
        int: {"type": "integer", "minimum": 0},
        float: {"type": "number", "minimum": 0},
        str: {"type": "string"},
    }
    if kind not in simple:
        raise TypeError(f"no JSON schema is known for a setting of type {kind}")
    return simple[kind]


def vscode_configuration() -> list[dict[str, Any]]:
    """`contributes.configuration`: one group for each part of the settings."""
    groups: dict[str, dict[str, Any]] = {}
    for setting in settings():
        groups.setdefault(setting.group, {})[setting.key] = {
            **json_schema(setting.type),
            "default": as_json(setting.default),
            "scope": setting.scope,
            "markdownDescription": setting.documentation,
        }
    groups["Language server"] = _CLIENT_SETTINGS
    return [{"title": title, "properties": properties} for title, properties in groups.items()]


def package_json(text: str) -> str:
    """The extension's manifest with its generated parts replaced."""
    manifest = json.loads(text)
    manifest["version"] = composer_lsp.__version__
    manifest["contributes"]["configuration"] = vscode_configuration()
    manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = [
        *(setting.key for setting in settings() if setting.scope == "machine-overridable"),
        *_CLIENT_SETTINGS,
    ]
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


# --- Command line -------------------------------------------------------------------------------


def cli_page() -> str:
    """Every command, as Markdown. Laid out here and not by argparse, whose help differs between
    versions of Python and widths of terminal."""
    sections: list[str] = []
    for name, (module, help_text) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"composer-lsp {name}", description=help_text)
        importlib.import_module(f"composer_lsp.cli.{module}").add_arguments(parser)
        sections += command_sections(parser, level=2)
    return "\n\n".join(sections)


def command_sections(
    parser: argparse.ArgumentParser, level: int, told: str | None = None
) -> Iterator[str]:
    """`told`: an epilog that stands above already."""
    positionals = [action for action in parser._actions if _is_positional(action)]
    options = [action for action in parser._actions if _is_option(action)]
    yield f"{'#' * level} `{parser.prog}`"
    if parser.description:
        yield _sentence(parser.description)
    if positionals or options:
        words = [parser.prog, *(["[options]"] if options else []), *map(_placeholder, positionals)]
        yield f"```console\n{' '.join(words)}\n```"
        rows = [_argument_row(action) for action in [*positionals, *options]]
        yield "\n".join(["| Argument | Meaning |", "|---|---|", *rows])
    if parser.epilog and parser.epilog != told:
        yield _sentence(parser.epilog)
    for subparser in _subparsers(parser):
        yield from command_sections(subparser, level + 1, parser.epilog)


def _argument_row(action: argparse.Action) -> str:
    if not action.option_strings:
        name = f"`{_placeholder(action)}`"
    else:
        value = f" {_placeholder(action)}" if action.nargs != 0 else ""
        name = ", ".join(f"`{option}{value}`" for option in action.option_strings)
    return f"| {_cell(name)} | {_cell(_sentence(_help(action)))} |"


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "composer-lsp"}


def _placeholder(action: argparse.Action) -> str:
    if action.choices is not None and len(list(action.choices)) <= _MAX_CHOICES_SHOWN:
        name = "{" + ",".join(str(choice) for choice in action.choices) + "}"
    elif isinstance(action.metavar, str):
        name = action.metavar
    else:
        name = action.dest.upper()
    if action.option_strings:
        return name
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _is_positional(action: argparse.Action) -> bool:
    return not action.option_strings and not isinstance(action, argparse._SubParsersAction)


def _is_option(action: argparse.Action) -> bool:
    shown = action.help != argparse.SUPPRESS
    return bool(action.option_strings) and shown and not isinstance(action, argparse._HelpAction)


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, subparser in action.choices.items():
                subparser.description = subparser.description or helps.get(name)
                yield subparser


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "?", "!")) else ".")


# --- Files --------------------------------------------------------------------------------------


def generated_files(root: Path) -> dict[Path, str]:
    """Every file with generated parts, as it should be."""
    files = {PACKAGE_JSON: package_json(_read(root / PACKAGE_JSON))}
    blocks = {
        "README.md": {"settings": settings_table},
        "docs/configuration.md": {"settings": settings_table},
        "docs/cli.md": {"commands": cli_page},
    }
    for path, contents in blocks.items():
        text = _read(root / path)
        for name, content in contents.items():
            text = replace_block(text, name, content(), path)
        files[Path(path)] = text
    return files


def replace_block(text: str, name: str, content: str, path: str) -> str:
    """`text` with what stands between the markers of `name` replaced.

    Raises: MissingMarkerError, which names `path`, if the markers are not there.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begin_found, rest = text.partition(begin)
    _, end_found, after = rest.partition(end)
    if not (begin_found and end_found):
        raise MissingMarkerError(f"{path} lacks {begin} and, after it, {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Write the documents that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if any is stale")
    check = parser.parse_args(arguments).check
    stale = [
        (path, text) for path, text in generated_files(root).items() if _read(root / path) != text
    ]
    for path, text in stale:
        if check:
            print(f"{path} is stale: run python scripts/generate_docs.py", file=sys.stderr)
        else:
            (root / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
