"""What a decoder takes of memory, in a process of its own (Linux):
`python -m bench.decoder_memory FILE DTYPE`.
"""

import asyncio
import json
import sys
from pathlib import Path


async def peak_memory(path: Path, dtype: str) -> str:
    """Of loading and of a prompt of 512 tokens, beside the weights."""
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
    weights, peak, before, cache = (found[key] for key in ("weights", "peak", "before", "cache"))
    return (
        f"{peak / 1e6:,.0f} MB, {before / 1e6:,.0f} of them torch and {cache / 1e6:,.0f} the cache; "
        f"the rest is {(peak - before - cache) / weights:.2f} times the weights' {weights / 1e6:,.0f} MB"
    )


def main(path: str, dtype: str) -> None:
    from bench.decoder_ours import DTYPES, Ours
    from composer_inference.sampling.vocabulary import read_vocabulary
    from composer_inference.weights.open import open_checkpoint

    def peak() -> int:
        # Not getrusage, which counts what the process was before it became this one.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    before = peak()
    checkpoint = open_checkpoint(Path(path))
    vocabulary = read_vocabulary(Path(path), num_embeddings=int(checkpoint.config["vocab_size"]))
    with Ours.opened(checkpoint, vocabulary, DTYPES[dtype]) as ours:
        ours.answer(range(1000, 1512), 8)
        weights = sum(parameter.nbytes for parameter in ours.decoder.parameters())
        found = {
            "before": before,
            "peak": peak(),
            "weights": weights,
            "cache": ours.pool.num_bytes,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
