"""What a decoder takes of memory, in a process of its own (Linux):
`python -m bench.decoder_memory FILE DTYPE`.

Counted is anonymous memory. Pages of the model's file are mapped while its weights are read; the
system takes them back when it wants, and so may whoever measures a process: they are told apart.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.002


async def peak_memory(path: Path, dtype: str) -> str:
    """Of loading, and then of a prompt of 512 tokens, beside the weights."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.decoder_memory",
        str(path),
        dtype,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    found = json.loads(out)
    weights, cache = found["weights"], found["cache"]
    loading, running = (found[key] - found["before"] for key in ("loading", "running"))
    return (
        f"loading takes {loading / 1e6:,.0f} MB, {loading / weights:.2f} times the weights' "
        f"{weights / 1e6:,.0f}; a prompt of 512 with its cache of {cache / 1e6:,.0f} MB "
        f"{running / 1e6:,.0f}; torch and the vocabulary {found['before'] / 1e6:,.0f}; mapped of files "
        f"{found['mapped'] / 1e6:,.0f}"
    )


@dataclass(slots=True)
class Peak:
    anonymous: int = 0
    mapped: int = 0

    def sample(self) -> None:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        self.anonymous = max(self.anonymous, _num_bytes(status, "RssAnon"))
        self.mapped = max(self.mapped, _num_bytes(status, "RssFile"))


@contextmanager
def sampled() -> Generator[Peak]:
    """The kernel keeps a peak of both kinds together alone."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            peak.sample()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()
        peak.sample()


def main(path: str, dtype: str) -> None:
    from bench.decoder_ours import CPU, DTYPES, Ours
    from composer_inference.sampling.vocabulary import read_vocabulary
    from composer_inference.weights.loading import load_decoder
    from composer_inference.weights.open import open_checkpoint

    checkpoint = open_checkpoint(Path(path))
    vocabulary = read_vocabulary(Path(path), num_embeddings=int(checkpoint.config["vocab_size"]))
    before = Peak()
    before.sample()
    with sampled() as loading:
        decoder = load_decoder(checkpoint, dtype=DTYPES[dtype], device=CPU)
    with sampled() as running, Ours.of(decoder, vocabulary) as ours:
        ours.answer(range(1000, 1512), 8)
    found = {
        "before": before.anonymous,
        "loading": loading.anonymous,
        "running": running.anonymous,
        "mapped": loading.mapped,
        "weights": decoder.num_bytes,
        "cache": ours.pool.num_bytes,
    }
    print(json.dumps(found))


def _num_bytes(status: str, field: str) -> int:
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
