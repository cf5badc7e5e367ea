"""One choice of an answer of /v1/chat/completions, put together of what a stream says."""

from typing import Any


class WholeChoice:
    def __init__(self) -> None:
        self._content = ""
        self._calls: list[dict[str, Any]] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._token_ids: list[int] = []
        self._last: dict[str, Any] = {}

    def add(self, choice: dict[str, Any]) -> None:
        """The next of a stream's."""
        self._last = choice
        self._content += choice["delta"].get("content", "")
        self._token_ids += choice.get("token_ids", ())
        for call in choice["delta"].get("tool_calls", ()):
            self._add_call(call)
        given: dict[str, list[Any]] = choice["logprobs"] or {}
        for name in ("content", "tool_calls"):
            if entries := given.get(name):
                self._logprobs.setdefault(name, []).extend(entries)

    def choice(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self._content,
            "refusal": None,
        }
        if self._calls:
            message |= {"content": self._content or None, "tool_calls": self._calls}
        found = self._logprobs
        # What only the last of a stream tells stays as it is.
        whole = {name: value for name, value in self._last.items() if name != "delta"}
        whole |= {
            "message": message,
            "logprobs": {"content": [], "refusal": None, **found} if found else None,
        }
        if "token_ids" in whole:
            whole["token_ids"] = self._token_ids
        return whole

    def _add_call(self, delta: dict[str, Any]) -> None:
        if "id" in delta:
            self._calls.append({name: delta[name] for name in ("id", "type", "function")})
        else:
            self._calls[-1]["function"]["arguments"] += delta["function"]["arguments"]
