"""Tab completions by a server behind a URL that the user configured."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import TabSettings
from composer_lsp.engine.backoff import Backoff
from composer_lsp.engine.client import OpenAIClient, remote_client
from composer_lsp.engine.errors import (
    BackingOffError,
    EngineError,
    ModelNotFoundError,
    RequestRefusedError,
)
from composer_lsp.engine.tab import Forcing, stream_completion
from composer_lsp.engine.users import Users


class RemoteTabEngine:
    """Implements `TabEngine` for one set of settings. While the server fails it is left alone for
    growing spells; an explicit request tries at once."""

    def __init__(self, settings: TabSettings, backoff: Backoff | None = None) -> None:
        """Raises: ConfigurationError."""
        self._settings = settings
        self._backoff = backoff or Backoff()
        self._client: OpenAIClient = remote_client(settings, "tab")
        self._model = "" if settings.model == "auto" else settings.model
        self._last_error: EngineError | None = None
        self._users = Users(self._client.aclose)

    async def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        """Raises: EngineError."""
        if self._backoff.remaining_s > 0 and not invoked:
            assert self._last_error is not None, "the back-off begins with an error"
            raise BackingOffError(self._last_error, self._backoff.remaining_s)
        async with self._users.one():
            try:
                chunks = stream_completion(
                    self._client,
                    prompt,
                    model=await self._model_name(),
                    fim_template=self._settings.fim_template,
                    forcing=Forcing.UNKNOWN,
                    max_tokens=max_tokens,
                    stop=stop,
                    seed=seed,
                )
                async with aclosing(chunks):
                    async for chunk in chunks:
                        self._backoff.succeeded()
                        yield chunk
            except RequestRefusedError:
                raise  # about this request; the next one may be fine
            except EngineError as error:
                self._last_error = error
                self._backoff.failed()
                raise

    async def prepare(self, prompt: FimPrompt) -> Mapping[str, float]:
        """Nothing: a server's time is others' too, and may have its price."""
        return {}

    async def aclose(self) -> None:
        """Once the last answer that runs has ended; nobody asks any more."""
        await self._users.retire()

    async def _model_name(self) -> str:
        if not self._model:
            models = await self._client.models()
            if not models:
                raise ModelNotFoundError(
                    f"{self._settings.url} lists no model; name one in the setting tab.model",
                    model="auto",
                )
            self._model = models[0]
        return self._model
