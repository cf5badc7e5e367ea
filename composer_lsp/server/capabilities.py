"""What the client can do, read once from `initialize`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from lsprotocol import types

_READ: dict[str, tuple[str, ...]] = {
    "general": ("positionEncodings",),
    "notebookDocument": ("synchronization",),
    "textDocument": ("inlineCompletion", "synchronization"),
    "window": ("showMessage", "workDoneProgress"),
    "workspace": ("configuration", "didChangeConfiguration", "workspaceFolders"),
}
"""The client capabilities that this server looks at, and `experimental`."""


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

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities) -> "ClientFeatures":
        text_document = capabilities.text_document
        workspace = capabilities.workspace
        window = capabilities.window
        changes = workspace and workspace.did_change_configuration
        return cls(
            inline_completion=bool(text_document and text_document.inline_completion),
            configuration=bool(workspace and workspace.configuration),
            registers_configuration=bool(changes and changes.dynamic_registration),
            message_request=bool(window and window.show_message),
            work_done_progress=bool(window and window.work_done_progress),
            status=_wants_status(capabilities.experimental),
        )


def _wants_status(experimental: Any) -> bool:
    if not isinstance(experimental, Mapping):
        return False
    composer = cast("Mapping[str, object]", experimental).get("composer")
    if not isinstance(composer, Mapping):
        return False
    return cast("Mapping[str, object]", composer).get("status") is True
