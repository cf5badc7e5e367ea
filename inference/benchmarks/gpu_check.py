"""What there is to do with the decoder on a machine with a GPU, in under five minutes:

    PYTHONPATH=inference:kernels python inference/benchmarks/gpu_check.py [--vllm] [--out FOLDER]

A model of Qwen3-Coder-30B-A3B's shape with random weights: first that it computes the same in several
ways, on two of its layers, then how fast it prefills and decodes, whole, in bf16 and in MXFP8, its steps
launched one kernel after the other and as CUDA graphs. Attention is compared with its twin before, and
its two ways are timed. Prints tables and writes `measurements.csv`. A section for which the memory or the time is not enough is left
out and told. `--vllm` measures vLLM with random weights of the same shape, where it is installed.
`--device cpu` is a dry run with tiny sizes; its times mean nothing. Exit status 1: a check failed.
"""

import argparse
import csv
import gc
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from attention_check import compared, print_times
from torch import Tensor

from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.graphs import CudaCapture, DecodeGraphs, Run
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.weights.random_weights import (
    RandomFormat,
    experts_of,
    num_bytes,
    random_decoder,
)

TOTAL_S = 240.0
"""No model is made after this."""
FORMATS: tuple[RandomFormat, ...] = ("mxfp8", "bf16")
_WAYS = ("eager", "graphs")
"""How decode steps are launched."""
BLOCK_SIZE = 16
BLOCKS_OF_A_SEQUENCE = 36
"""Of the cache: a prompt and what is decoded after it, in the larger sizes."""
_cuda: Any = torch.cuda

CODER: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 5472,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000_000.0,
    "max_position_embeddings": 262_144,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
}
"""Its published config.json, as far as it matters."""

SMALL = CODER | {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 96,
    "moe_intermediate_size": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    config: dict[str, Any]
    prompt_tokens: int
    batches: tuple[int, ...]
    num_steps: int
    copy_bytes: int
    cached: tuple[int, ...]
    """Tokens of each sequence where attention alone is timed."""


FULL = Sizes(
    config=CODER,
    prompt_tokens=512,
    batches=(1, 8, 32),
    num_steps=24,
    copy_bytes=1 << 30,
    cached=(512, 8192),
)
DRY = Sizes(
    config=SMALL, prompt_tokens=32, batches=(1, 2), num_steps=3, copy_bytes=1 << 20, cached=(64,)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    what: str
    """Who and in what format."""
    batch: int
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    step_ms: float
    """Median of a decoded token of each sequence."""
    step_gb: float | None = None
    """Weights, keys and values that a step reads."""
    of_bandwidth: float | None = None
    """Those bytes over the measured bandwidth, as a share of the step."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_check")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--vllm", action="store_true", help="measure vLLM too, if it is installed")
    parser.add_argument("--out", type=Path, default=Path("decoder-gpu-check"))
    parser.add_argument("--seed", type=int, default=7, help="of the weights")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch sees no GPU; --device cpu is a dry run", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(options.device)
    sizes = FULL if device.type == "cuda" else DRY
    name = _cuda.get_device_name() if device.type == "cuda" else platform.machine()
    cuda: Any = torch.version
    print(f"{name}; torch {torch.__version__}, CUDA {cuda.cuda}, seed {options.seed}")
    deadline = time.monotonic() + TOTAL_S
    failures = [message for message in _checks(sizes, options.seed, device) if message]
    rows = [*_timings(sizes, options.seed, device, deadline)]
    if options.vllm:
        rows += _vllm(sizes)
    with (options.out / "measurements.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Measurement)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print("\n" + ("\n".join(["FAILED:", *failures]) if failures else "all passed"))
    return 1 if failures else 0


@dataclass(frozen=True, slots=True)
class Model:
    decoder: Decoder
    pool: KVPool
    graphs: DecodeGraphs

    @property
    def expert_bytes(self) -> int:
        """Of one expert of one layer."""
        experts = next(experts_of(self.decoder))
        return sum(each.nbytes for each in experts.parameters()) // experts.config.num_experts

    @property
    def other_bytes(self) -> int:
        """Of the weights that every step reads: all but the experts and the table of embeddings."""
        weights = sum(each.nbytes for each in self.decoder.parameters())
        experts = sum(e.nbytes for module in experts_of(self.decoder) for e in module.parameters())
        return weights - experts - self.decoder.embedding.nbytes

    @property
    def token_bytes(self) -> int:
        """Of a token's keys and values."""
        size = self.pool.block_size
        return self.pool.num_bytes // self.pool.num_blocks // size

    def logits(self, spans: list[Span], choices: list[Tensor] | None = None) -> Tensor:
        batch = Batch.of(spans, block_size=BLOCK_SIZE, device=self.pool.device)
        with torch.inference_mode():
            return self.decoder(batch, self.pool, router_choices=choices)

    def graph_logits(self, spans: list[Span]) -> Tensor:
        """Of sequences that decode."""
        with torch.inference_mode():
            return self.graphs.forward(spans)


def _made(
    config: dict[str, Any], stored: RandomFormat, num_tokens: int, seed: int, device: torch.device
) -> Model:
    """With a cache of so many tokens."""
    decoder = random_decoder(config, stored, seed=seed, device=device)
    pool = KVPool(
        decoder.cache_shapes,
        num_blocks=num_tokens // BLOCK_SIZE,
        block_size=BLOCK_SIZE,
        dtype=torch.bfloat16,
        device=device,
    )
    capture = CudaCapture() if device.type == "cuda" else _run_anew
    return Model(decoder, pool, DecodeGraphs(decoder, pool, capture))


def _run_anew(run: Run) -> Run:
    """In place of a capture, on a CPU."""
    return run


def _checks(sizes: Sizes, seed: int, device: torch.device) -> Iterator[str | None]:
    print("\n== correctness: relative differences")
    for name, found, expected in compared(device):
        yield _check(name, found, expected, 0.02)
    print("of logits, on two layers:")
    config = sizes.config | {"num_hidden_layers": 2}
    num_tokens = 4 * BLOCKS_OF_A_SEQUENCE * BLOCK_SIZE

    def made(stored: RandomFormat) -> Model:
        return _made(config, stored, num_tokens, seed, device)

    tokens = _tokens(sizes, 1, sizes.prompt_tokens)[0]
    plain = made("bf16").logits([_span(tokens, 0, 0, num_logits=8)])
    rounded = made("rounded").logits([_span(tokens, 0, 0, num_logits=8)])
    model = made("mxfp8")
    whole = model.logits([_span(tokens, 0, 0, num_logits=8)])
    yield _check("MXFP8 and bf16 with the same values", whole, rounded, 0.03)
    yield _check("MXFP8 and bf16 before quantising", whole, plain, 0.3)
    cut = len(tokens) - 8
    model.logits([_span(tokens[: cut // 2], 0, 1)])
    model.logits([_span(tokens[cut // 2 : cut], cut // 2, 1)])
    decoded = [
        model.logits([_span(tokens[place : place + 1], place, 1)])
        for place in range(cut, len(tokens))
    ]
    yield _check("decode after a chunked prefill, and prefill", torch.cat(decoded), whole, 0.03)
    beside = [_span(tokens[: cut // 3], 0, 2), _span(tokens, 0, 3, num_logits=8)]
    yield _check("beside a shorter prompt, and alone", model.logits(beside)[1:], whole, 0.03)
    last = [_span(tokens[-1:], len(tokens) - 1, place) for place in (1, 3, 3)]
    yield _check("decode as a graph, and prefill", model.graph_logits(last)[:2], whole[-1:], 0.03)


def _check(name: str, found: Tensor, expected: Tensor, limit: float) -> str | None:
    """Rounding in bf16 is 0.4%, twice a layer and more; a wrong expert or place is of order one."""
    error = float(torch.dist(found, expected) / torch.dist(expected, torch.zeros_like(expected)))
    is_good = error <= limit  # False where it is not a number.
    print(
        f"{name:48}{error:8.4f}, at most {limit}: {'passed' if is_good else 'FAILED'}", flush=True
    )
    return None if is_good else f"{name}: {error:.4f} is over {limit}"


def _timings(
    sizes: Sizes, seed: int, device: torch.device, deadline: float
) -> Iterator[Measurement]:
    bandwidth = _bandwidth(sizes, device)
    print("\n== one layer's attention, a token of each sequence")
    print_times(sizes.batches, sizes.cached, device)
    print(f"\n== speed; a copy moves {bandwidth / 1e9:,.0f} GB/s")
    print(
        f"{'':20}{'batch':>6}{'prefill, tok/s':>16}{'decode, tok/s':>16}{'step, ms':>10}"
        f"{'step, GB':>10}{'of bandwidth':>14}"
    )
    num_tokens = max(sizes.batches) * BLOCKS_OF_A_SEQUENCE * BLOCK_SIZE
    for stored in FORMATS:
        needed = num_bytes(sizes.config, stored)
        if device.type == "cuda" and needed > 0.85 * _cuda.mem_get_info()[0]:
            print(f"{stored}: left out, its {needed / 1e9:.0f} GB do not fit")
            continue
        if time.monotonic() > deadline:
            print(f"{stored}: left out, the time is over")
            continue
        model = _made(sizes.config, stored, num_tokens, seed, device)
        for batch in sizes.batches:
            for way in _WAYS:
                row = _measure(model, sizes, stored, way, batch, bandwidth)
                _print(row)
                yield row
        del model
        gc.collect()
        if device.type == "cuda":
            _cuda.empty_cache()


def _measure(
    model: Model, sizes: Sizes, stored: RandomFormat, way: str, batch: int, bandwidth: float
) -> Measurement:
    decode = model.graph_logits if way == "graphs" else model.logits
    prompts = _tokens(sizes, batch, sizes.prompt_tokens)
    spans = [_span(prompt, 0, place) for place, prompt in enumerate(prompts)]
    prefill_s = min(_seconds(model, lambda: model.logits(spans)) for _ in range(3))
    last = [prompt[-1] for prompt in prompts]
    times: list[float] = []
    for step in range(sizes.num_steps):
        places = range(batch)
        num_cached = sizes.prompt_tokens + step
        spans_of_step = [_span([last[place]], num_cached, place) for place in places]
        times.append(_seconds(model, lambda spans=spans_of_step: decode(spans).argmax(-1)))
    step_s = statistics.median(times[2:] or times)
    choices: list[Tensor] = []
    model.logits(
        [_span([last[place]], sizes.prompt_tokens, place) for place in range(batch)], choices
    )
    num_experts = sum(int(ids_TK.flatten().bincount().count_nonzero()) for ids_TK in choices)
    cache = model.token_bytes * batch * (sizes.prompt_tokens + sizes.num_steps // 2)
    step_bytes = model.other_bytes + num_experts * model.expert_bytes + cache
    return Measurement(
        what=f"{stored}, {way}",
        batch=batch,
        prefill_tokens_per_s=batch * sizes.prompt_tokens / prefill_s,
        decode_tokens_per_s=batch / step_s,
        step_ms=1e3 * step_s,
        step_gb=step_bytes / 1e9,
        of_bandwidth=step_bytes / bandwidth / step_s,
    )


def _vllm(sizes: Sizes) -> list[Measurement]:
    """In a process of its own, once our memory is free; with its defaults: CUDA graphs, bf16."""
    if find_spec("vllm") is None:
        print("vLLM is not installed")
        return []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(sizes.config))
        script = Path(__file__).with_name("vllm_speed.py")
        numbers = [sizes.prompt_tokens, sizes.num_steps, *sizes.batches]
        command = [sys.executable, str(script), folder, *map(str, numbers)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        print(f"vLLM failed with {ran.returncode}")
        return []
    rows = [Measurement(**each) for each in json.loads(ran.stdout.splitlines()[-1])]
    for row in rows:
        _print(row)
    return rows


def _print(row: Measurement) -> None:
    step = "" if row.step_gb is None else f"{row.step_gb:10.2f}"
    share = "" if row.of_bandwidth is None else f"{row.of_bandwidth:14.0%}"
    print(
        f"{row.what:20}{row.batch:6}{row.prefill_tokens_per_s:16,.0f}"
        f"{row.decode_tokens_per_s:16,.0f}{row.step_ms:10.2f}{step}{share}",
        flush=True,
    )


def _bandwidth(sizes: Sizes, device: torch.device) -> float:
    """Bytes a second, read and written, of the best of some copies."""
    source = torch.zeros(sizes.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(4):
            target.copy_(source)
        _synchronize(device)
        return (time.perf_counter() - start) / 4

    return 2 * sizes.copy_bytes / min(seconds() for _ in range(4))


def _seconds(model: Model, run: Callable[[], object]) -> float:
    _synchronize(model.pool.device)
    start = time.perf_counter()
    run()
    _synchronize(model.pool.device)
    return time.perf_counter() - start


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        _cuda.synchronize()


def _span(token_ids: Sequence[int], num_cached: int, place: int, *, num_logits: int = 1) -> Span:
    """Of the sequence that has the `place`-th part of the cache."""
    size = BLOCKS_OF_A_SEQUENCE
    blocks = range(place * size, (place + 1) * size)
    return Span(token_ids=token_ids, num_cached=num_cached, blocks=blocks, num_logits=num_logits)


def _tokens(sizes: Sizes, num_prompts: int, num_tokens: int) -> list[list[int]]:
    """Random ones: equal ones would all go to the same experts."""
    draw = random.Random(num_prompts)
    vocab_size = sizes.config["vocab_size"]
    return [[draw.randrange(vocab_size) for _ in range(num_tokens)] for _ in range(num_prompts)]


if __name__ == "__main__":
    sys.exit(main())
