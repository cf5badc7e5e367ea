"""`make bench`: what Composer costs and how fast it answers, beside named peers in the same run.

    python -m bench [start-up] [keystroke] [stages] [index] [agent] [kernels] [ghost-text] [load]
                    [cancel]                                                    (default: all)

Needs the model qwen2.5-coder-0.5b for all but the first six, and fetches Django's sources for
`index` and `agent`. `index-large`, `decoder` and `edits` take ten minutes each and only run when they
are named; `decoder` needs transformers and smollm2-135m too. Every table is printed with the machine; quote
ratios, not seconds.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from bench import (
    agent_overhead,
    edits,
    engine_load,
    ghost_text,
    index_large,
    index_speed,
    keystroke,
    stages,
    start_up,
)
from bench.measure import print_machine


async def _run_kernels() -> None:
    # Imported on use: the other parts measure processes beside which torch would weigh.
    from benchmarks import twins

    await twins.run()


async def _run_decoder() -> None:
    from bench import decoder

    await decoder.run()


PARTS: dict[str, Callable[[], Awaitable[None]]] = {
    "start-up": start_up.run,
    "keystroke": keystroke.run,
    "stages": stages.run,
    "index": index_speed.run,
    "agent": agent_overhead.run,
    "kernels": _run_kernels,
    "ghost-text": ghost_text.run,
    "load": engine_load.run_busy,
    "cancel": engine_load.run_priorities,
}

ON_DEMAND: dict[str, Callable[[], Awaitable[None]]] = {
    "index-large": index_large.run,
    "decoder": _run_decoder,
    "edits": edits.run,
}
"""They take ten minutes, so they only run when they are named."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, *ON_DEMAND, []], help="which tables")
    chosen = parser.parse_args().parts or list(PARTS)
    print_machine()
    for name in chosen:
        print(f"\n== {name}", flush=True)
        asyncio.run((PARTS | ON_DEMAND)[name]())


if __name__ == "__main__":
    main()
