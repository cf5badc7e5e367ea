"""What the user turns on and off while working: suggestions, one language, a pause."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from composer_lsp.config import Settings

LANGUAGE_SCOPE = "language:"


class Switches:
    """Laid over the settings until the window closes, or until the same setting changes."""

    def __init__(self, settings: Settings, on_change: Callable[[], None]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._enabled: bool | None = None
        self._languages: dict[str, bool] = {}
        self._snooze: asyncio.TimerHandle | None = None

    @property
    def is_snoozed(self) -> bool:
        return self._snooze is not None

    @property
    def settings(self) -> Settings:
        """The settings with the switches applied."""
        tab = self._settings.tab
        disabled = [name for name in tab.disabled_languages if not self._languages.get(name)]
        disabled += [name for name, is_on in self._languages.items() if not is_on]
        enabled = tab.enabled if self._enabled is None else self._enabled
        return replace(
            self._settings,
            tab=replace(tab, enabled=enabled, disabled_languages=tuple(dict.fromkeys(disabled))),
        )

    def use(self, settings: Settings) -> None:
        """Take new settings; what they change, the user's switches do not hold back."""
        if settings.tab.enabled != self._settings.tab.enabled:
            self._enabled = None
        if settings.tab.disabled_languages != self._settings.tab.disabled_languages:
            self._languages.clear()
        self._settings = settings
        self._on_change()

    def toggle(self, language: str | None) -> bool:
        """Turn suggestions, or those of one language, off or on again; return what they are now."""
        tab = self.settings.tab
        if language is None:
            is_on = self._enabled = not tab.enabled
        else:
            is_on = self._languages[language] = language in tab.disabled_languages
        self._on_change()
        return is_on

    def snooze(self, minutes: float) -> None:
        """No automatic suggestions for that long; 0 ends the pause."""
        if self._snooze is not None:
            self._snooze.cancel()
            self._snooze = None
        if minutes > 0:
            loop = asyncio.get_running_loop()
            self._snooze = loop.call_later(minutes * 60, self.snooze, 0)
        self._on_change()
