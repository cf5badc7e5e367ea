"""A process that writes without end, and notes each file that was acknowledged; to be killed.

Arguments: the store's folder, the note's path, a seed. Prints "ready" once it writes.
"""

import os
import random
import sys
from pathlib import Path

from composer_index.store.store import Store
from tests.composer_index.store.building import indexed, one_hot

NUM_FILES = 30


def main(location: Path, note: Path, seed: int) -> None:
    store = Store.open(location)
    assert store.is_writer
    chosen = random.Random(seed)
    print("ready", flush=True)
    with note.open("a") as acknowledged:
        for generation in range(1, 1_000_000):
            paths = chosen.sample(range(NUM_FILES), chosen.randint(1, 4))
            files = []
            for path in paths:
                texts = [f"text {path} {generation} {part}" for part in range(chosen.randint(1, 6))]
                vectors = {"small": one_hot(*(part % 8 for part in range(len(texts))))}
                name, number = f"f{path}.py", seed * 10**6 + generation
                files.append(indexed(name, *texts, number=number, vectors=vectors))
            store.upsert_files(files)
            for file in files:
                parsed = file.parsed
                acknowledged.write(f"{parsed.path}\t{generation}\t{len(parsed.chunks)}\n")
            acknowledged.flush()
            os.fsync(acknowledged.fileno())
            if generation % 25 == 0:
                store.compact(purge=generation % 50 == 0, grace_s=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
