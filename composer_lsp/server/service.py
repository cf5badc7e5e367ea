"""The seam between the session and what computes suggestions: the engine's client in earnest, a
fake in tests."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from composer_lsp.completion.copies import Copies
from composer_lsp.completion.edit_history import EditHistory
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.config import Settings
from composer_lsp.index.service import IndexService
from composer_lsp.server.documents import DocumentStore
from composer_lsp.server.status import Condition

if TYPE_CHECKING:
    from composer_lsp.completion.answer import Answer
    from composer_lsp.completion.templates import FimPrompt
    from composer_lsp.next_edit.content import Filled


class ServiceError(Exception):
    """No suggestion can come; the message tells the user what is wrong and the way out."""

    condition: Condition = "error"
    is_for_user = True


class ServiceOfflineError(ServiceError):
    """The engine or the server behind a URL cannot be reached now; trying again may help."""

    condition: Condition = "offline"

    def __init__(self, message: str, *, is_for_user: bool) -> None:
        """`is_for_user`: it will not mend itself, so a message box is due and not only the status."""
        super().__init__(message)
        self.is_for_user = is_for_user


class ModelMissingError(ServiceError):
    """The model is not on this machine."""

    def __init__(self, message: str, model: str) -> None:
        super().__init__(message)
        self.model = model


class CompletionService(Protocol):
    async def warm_up(self) -> None:
        """Get ready, so that the first suggestion need not wait for the model to load.

        Raises: ServiceError.
        """
        ...

    async def complete(self, request: CompletionRequest) -> Sequence[Suggestion]:
        """The suggestions, the best first. Cancelling this stops the engine's work.

        Raises: ServiceError.
        """
        ...

    async def prepare(self, request: CompletionRequest) -> bool:
        """The user rests at a place: have the prompt that the next keystroke there will need computed in
        the background. Returns when it is, or the user went elsewhere; False where no prompt may be made.

        Raises: ServiceError.
        """
        ...

    async def infill(
        self, prompt: "FimPrompt", *, max_tokens: int, stop: Sequence[str]
    ) -> "Filled":
        """What the model puts between two texts, its likeliest answer.

        Raises: ServiceError.
        """
        ...

    def opened(self, language_id: str) -> None:
        """A document of this language was opened: get ready what its suggestions need."""
        ...

    def answer(self, shown: str | None) -> "Answer | None":
        """The engine's latest answer, of which `shown` is the text or its end where it is of one."""
        ...

    def forget(self, uri: str) -> None:
        """The document was closed, or opened afresh."""
        ...

    def settings_changed(self) -> None: ...

    async def restart(self) -> None:
        """Have a new engine answer the next request. Raises: ServiceError."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceHost:
    """What a service may use of the session. Callbacks are for the event loop's thread."""

    settings: Callable[[], Settings]
    """The settings of now, with what the user toggled."""
    roots: Callable[[], Sequence[str]]
    """Paths of the workspace's folders."""
    index: Callable[[], IndexService | None]
    """The window's index, None while it is turned off."""
    documents: Callable[[], DocumentStore]
    edits: EditHistory
    copies: Copies
    on_condition: Callable[[Condition, str], None]
    """Tell the state of the engine, with a message ("" for the usual one)."""
    on_note: Callable[[str], None]
    """Tell what the user should know while all is well ("" for nothing)."""
    on_model: Callable[[str | None], None]
    """Tell which model answers."""


ServiceFactory = Callable[[ServiceHost], Awaitable[CompletionService]]
