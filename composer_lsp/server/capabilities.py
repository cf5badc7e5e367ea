"""What the client can do, read once from `initialize`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from lsprotocol import types

_READ: dict[str, tuple[str, ...]] = {
    "general": ("positionEncodings",),
    "notebookDocument": ("synchronization",),
    "textDocument": ("codeAction", "inlineCompletion", "synchronization"),
    "window": ("showDocument", "showMessage", "workDoneProgress"),
    "workspace": (
        "applyEdit",
        "codeLens",
        "configuration",
        "didChangeConfiguration",
        "workspaceEdit",
        "workspaceFolders",
    ),
}
"""The client capabilities that this server looks at, and `experimental`."""
_CODE_ACTION = ("codeActionLiteralSupport", "resolveSupport")
"""What of `codeAction` it looks at: the rest has numbers that grow with each version of LSP."""


def pruned(params: object) -> object:
    """The parameters of `initialize` with only the capabilities that we read.

    A value that lsprotocol does not know yet, somewhere in a part that is none of our business,
    must not keep a newer client from starting; and building the decoders of all the parts takes
    40 ms.
    """
    if not isinstance(params, Mapping):
        return params
    fields = cast("Mapping[str, object]", params)
    capabilities = fields.get("capabilities")
    if not isinstance(capabilities, Mapping):
        return fields
    sections = cast("Mapping[str, object]", capabilities)
    kept: dict[str, object] = {
        name: _only(sections[name], keys) for name, keys in _READ.items() if name in sections
    }
    if "codeAction" in (text_document := cast("dict[str, object]", kept.get("textDocument", {}))):
        code_action = _only(text_document["codeAction"], _CODE_ACTION)
        kept["textDocument"] = {**text_document, "codeAction": code_action}
    if "experimental" in sections:
        kept["experimental"] = sections["experimental"]
    return {**fields, "capabilities": kept}


def _only(section: object, keys: tuple[str, ...]) -> object:
    if not isinstance(section, Mapping):
        return section
    values = cast("Mapping[str, object]", section)
    return {key: values[key] for key in keys if key in values}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientFeatures:
    inline_completion: bool = False
    configuration: bool = False
    """Answers `workspace/configuration`."""
    registers_configuration: bool = False
    """Lets us ask for `workspace/didChangeConfiguration`."""
    message_request: bool = False
    """Shows a message with buttons and tells which was pressed."""
    work_done_progress: bool = False
    status: bool = False
    """Wants `composer/status` (`experimental.composer.status`)."""
    agent: bool = False
    """Wants `composer/agent`, what a run does while it goes on (`experimental.composer.agent`)."""
    apply_edit: bool = False
    document_changes: bool = False
    resource_operations: bool = False
    """A workspace edit may create, rename and delete files."""
    change_annotations: bool = False
    code_action_literals: bool = False
    """Takes code actions with a kind, and not only commands."""
    resolves_commands: bool = False
    """Asks for a code action's command when it is chosen (`codeAction/resolve`)."""
    code_lens_refresh: bool = False
    """Asks for code lenses again when told to."""
    show_document: bool = False
    """Opens a file that it is told to show."""
    asks_for_words: bool = False
    """Asks the user for the request itself where a command comes without (`experimental.composer.input`)."""
    shows_hunks: bool = False
    """Shows pending hunks itself, so that no code lens is needed (`experimental.composer.hunks`)."""

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities) -> "ClientFeatures":
        text_document = capabilities.text_document
        workspace = capabilities.workspace
        window = capabilities.window
        changes = workspace and workspace.did_change_configuration
        edit = workspace and workspace.workspace_edit
        actions = text_document and text_document.code_action
        resolves = actions and actions.resolve_support
        lenses = workspace and workspace.code_lens
        document = window and window.show_document
        return cls(
            inline_completion=bool(text_document and text_document.inline_completion),
            configuration=bool(workspace and workspace.configuration),
            registers_configuration=bool(changes and changes.dynamic_registration),
            message_request=bool(window and window.show_message),
            work_done_progress=bool(window and window.work_done_progress),
            status=_wants(capabilities.experimental, "status"),
            agent=_wants(capabilities.experimental, "agent"),
            apply_edit=bool(workspace and workspace.apply_edit),
            document_changes=bool(edit and edit.document_changes),
            resource_operations=set((edit and edit.resource_operations) or ())
            >= _RESOURCE_OPERATIONS,
            change_annotations=bool(edit and edit.change_annotation_support),
            code_action_literals=bool(actions and actions.code_action_literal_support),
            resolves_commands=bool(resolves and "command" in resolves.properties),
            code_lens_refresh=bool(lenses and lenses.refresh_support),
            show_document=bool(document and document.support),
            asks_for_words=_wants(capabilities.experimental, "input"),
            shows_hunks=_wants(capabilities.experimental, "hunks"),
        )


_RESOURCE_OPERATIONS = {
    types.ResourceOperationKind.Create,
    types.ResourceOperationKind.Rename,
    types.ResourceOperationKind.Delete,
}


def _wants(experimental: Any, name: str) -> bool:
    if not isinstance(experimental, Mapping):
        return False
    composer = cast("Mapping[str, object]", experimental).get("composer")
    if not isinstance(composer, Mapping):
        return False
    return cast("Mapping[str, object]", composer).get(name) is True
