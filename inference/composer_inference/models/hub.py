"""A model's file from the hub.

`huggingface_hub` knows the address, the mirror and the user's token. The bytes are fetched here:
its own download neither tells its progress nor ends when it is told to.
"""

from collections.abc import Mapping
from pathlib import Path

import httpx
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.utils import build_hf_headers  # pyright: ignore[reportUnknownVariableType]

from composer_inference.models.catalog import ModelSpec
from composer_inference.models.errors import DigestMismatchError, SourceError
from composer_inference.models.files import OnBytes, sync_file

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_MAX_TRIES_IN_VAIN = 3
_SHA256_LENGTH = 64


def fetch_from_hub(spec: ModelSpec, folder: Path, on_bytes: OnBytes) -> Path:
    """Fetch the file into the folder, going on where an earlier try stopped, and return its path.

    Raises: SourceError, OSError.
    """
    assert spec.hub is not None and not spec.companions
    if constants.HF_HUB_OFFLINE:
        raise SourceError("HF_HUB_OFFLINE is set")
    target = folder / "hub.part"
    url = huggingface_hub.hf_hub_url(spec.hub.repo, spec.hub.filename, revision=spec.hub.revision)
    num_vain = 0
    while (have := _size(target)) != spec.size_bytes:
        try:
            _fetch_rest(url, spec, target, on_bytes)
        except httpx.HTTPError as error:
            # A connection that breaks now and then still gets there; one that gives nothing never.
            num_vain = 0 if _size(target) > have else num_vain + 1
            if num_vain and (have == 0 or num_vain == _MAX_TRIES_IN_VAIN):
                raise SourceError(f"{url} cannot be fetched: {error or repr(error)}") from error
    return target


def _fetch_rest(url: str, spec: ModelSpec, target: Path, on_bytes: OnBytes) -> None:
    have = _size(target) if _size(target) < spec.size_bytes else 0
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with httpx.stream(
        "GET", url, headers=headers, follow_redirects=True, timeout=_TIMEOUT
    ) as answer:
        _check_promise(spec, [*answer.history, answer])
        if answer.status_code not in {200, 206}:
            raise SourceError(f"{url} answers {answer.status_code} {answer.reason_phrase}")
        if answer.status_code == 200:
            have = 0  # the server does not resume
        with target.open("ab" if have else "wb") as file:
            for block in answer.iter_bytes():  # with a size, it loses what it holds on a break
                have += len(block)
                if have > spec.size_bytes:
                    raise _too_long(spec, url, target)
                file.write(block)
                on_bytes(have, spec.size_bytes)
            sync_file(file)
    if have < spec.size_bytes:
        raise httpx.ReadError(f"the answer ended after {have:,} of {spec.size_bytes:,} bytes")


def _check_promise(spec: ModelSpec, answers: list[httpx.Response]) -> None:
    """The hub tells the file's digest before its bytes: a wrong one costs no download."""
    for answer in answers:
        promised = _digest(answer.headers)
        if promised not in {None, spec.sha256}:
            raise DigestMismatchError(
                f"the file there has SHA-256 {promised} instead of {spec.sha256}"
            )


def _digest(headers: Mapping[str, str]) -> str | None:
    etag = headers.get("x-linked-etag", "").strip('"')
    return etag if len(etag) == _SHA256_LENGTH else None


def _too_long(spec: ModelSpec, url: str, target: Path) -> DigestMismatchError:
    target.unlink()
    return DigestMismatchError(f"{url} gives more than the {spec.size_bytes:,} bytes expected")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
