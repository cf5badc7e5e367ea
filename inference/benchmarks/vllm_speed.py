"""vLLM's speed with random weights of a config.json: `vllm_speed.py FOLDER PROMPT STEPS BATCH...`.

The last line of its output is JSON, a list of what `gpu_check.Measurement` takes.
"""

import json
import random
import sys
import time
from typing import Any

import vllm  # pyright: ignore[reportMissingImports]


def main(folder: str, num_prompt: int, num_steps: int, *batches: int) -> None:
    library: Any = vllm
    model = library.LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        max_model_len=num_prompt + num_steps + 16,
    )
    draw = random.Random(7)

    def seconds(batch: int, num_tokens: int) -> float:
        prompts = [
            {"prompt_token_ids": [draw.randrange(1000, 40_000) for _ in range(num_prompt)]}
            for _ in range(batch)
        ]
        sampling = library.SamplingParams(
            temperature=0, max_tokens=num_tokens, ignore_eos=True, detokenize=False
        )
        start = time.perf_counter()
        model.generate(prompts, sampling, use_tqdm=False)
        return time.perf_counter() - start

    rows: list[dict[str, Any]] = []
    for batch in batches:
        seconds(batch, num_steps)
        prefill_s = min(seconds(batch, 1) for _ in range(3))
        step_s = (min(seconds(batch, num_steps) for _ in range(3)) - prefill_s) / (num_steps - 1)
        rows.append(
            {
                "what": f"vLLM {library.__version__}, bf16",
                "batch": batch,
                "prefill_tokens_per_s": batch * num_prompt / prefill_s,
                "decode_tokens_per_s": batch / step_s,
                "step_ms": 1e3 * step_s,
            }
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
