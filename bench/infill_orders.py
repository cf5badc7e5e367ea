"""Which order of a fill-in-the-middle prompt is cheapest while typing, and which answers best.

Prints the tokens that llama.cpp computes again after 40 more typed characters, and pass@1 on
HumanEval single-line infilling (Bavarian et al. 2022, arXiv:2207.14255) with the cursor at the
line's start, after its indentation, and somewhere inside the line. Model output is executed in subprocesses: run it where that is safe.

    python bench/infill_orders.py --gguf MODEL.gguf --data HumanEval-SingleLineInfilling.jsonl.gz
"""

import argparse
import gzip
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from composer_lsp.completion.healing import split_last_token, without_start
from composer_lsp.engine.healed import beginning_with

ORDERS: dict[str, Callable[[str, str], str]] = {
    "prefix-suffix-middle": lambda prefix, suffix: (
        f"<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"
    ),
    "suffix-prefix-middle": lambda prefix, suffix: (
        f"<|fim_suffix|>{suffix}<|fim_prefix|>{prefix}<|fim_middle|>"
    ),
    "suffix-first": lambda prefix, suffix: (
        f"<|fim_prefix|><|fim_suffix|>{suffix}<|fim_middle|>{prefix}"
    ),
}
STOP = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"]

TYPED_BEFORE = textwrap.dedent('''\
    import json
    from pathlib import Path


    class Ledger:
        """Accounts and the amounts moved between them."""

        def __init__(self, path: Path) -> None:
            self.path = path
            self.balances: dict[str, int] = {}

        def load(self) -> None:
            ''')
TYPED = "for name, amount in json.loads(self.path"
TYPED_AFTER = "\n" + "".join(
    f"""
    def move_{name}(self, source: str, target: str, amount: int) -> None:
        if self.balances[source] < amount:
            raise ValueError(f"{{source}} holds less than {{amount}} {name}")
        self.balances[source] -= amount
        self.balances[target] = self.balances.get(target, 0) + amount
"""
    for name in ("euros", "pounds", "francs", "crowns", "florins")
)


@dataclass(frozen=True)
class Problem:
    task_id: str
    entry_point: str
    prefix: str
    suffix: str
    solution: str
    test: str


@dataclass(frozen=True)
class Answer:
    text: str
    num_prefill_tokens: int


class Model:
    """One llama.cpp slot, decoding greedily with its prompt cache."""

    def __init__(self, gguf: Path, *, num_threads: int, cache_reuse: int = 0) -> None:
        import xllamacpp

        params: Any = xllamacpp.CommonParams()
        params.verbosity = -1
        params.model.path = str(gguf)
        params.n_ctx, params.n_parallel, params.n_batch, params.n_ubatch = 4096, 1, 128, 128
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = num_threads
        params.cpuparams.poll = params.cpuparams_batch.poll = 0
        params.n_cache_reuse = cache_reuse
        params.cache_ram_mib = 0  # prompts that left the slot must not come back for free
        params.warmup = False
        self._server: Any = xllamacpp.Server(params)

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int,
        starts_with: str = "",
        is_enough: Callable[[str], bool] = lambda text: False,
    ) -> Answer:
        """Decode until the model stops or `is_enough` says so of the text so far."""
        text = ""
        num_prefill_tokens = 0

        def on_chunk(chunk: Any) -> bool:
            nonlocal text, num_prefill_tokens
            event = json.loads(chunk) if isinstance(chunk, str | bytes) else chunk
            text += event["choices"][0]["text"]
            if "timings" in event:
                num_prefill_tokens = int(event["timings"]["prompt_n"])
            return is_enough(text)

        body = {
            "prompt": prompt,
            "stream": True,
            "max_tokens": max_tokens,
            "temperature": 0,
            "cache_prompt": True,
            "stop": STOP,
        }
        if starts_with:
            body["grammar"] = beginning_with(starts_with)
        self._server.handle_completions(body, on_chunk)
        return Answer(text, num_prefill_tokens)


def read_problems(path: Path, *, num_problems: int, seed: int) -> list[Problem]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    random.Random(seed).shuffle(rows)
    return [
        Problem(
            row["task_id"],
            row["entry_point"],
            row["prompt"],
            row["suffix"],
            row["canonical_solution"],
            row["test"],
        )
        for row in rows[:num_problems]
    ]


def passes(problem: Problem, middle: str) -> bool:
    program = (
        f"{problem.prefix}{middle}{problem.suffix}\n{problem.test}\ncheck({problem.entry_point})\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=20, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


Healing = Literal["none", "checked", "forced"]
"""The prompt ends at the cursor; or before the token at the cursor, and the answer is checked to
begin with it, or forced by a grammar."""


@dataclass(frozen=True)
class Variant:
    order: str
    healing: Healing = "none"

    def __str__(self) -> str:
        return self.order + ("" if self.healing == "none" else f", healed ({self.healing})")

    def split(self, prefix: str) -> tuple[str, str]:
        """What the prompt ends with, and what is held back for the answer to begin with."""
        return (prefix, "") if self.healing == "none" else split_last_token(prefix)


VARIANTS = (
    *(Variant(order) for order in ORDERS),
    Variant("suffix-first", "checked"),
    Variant("suffix-first", "forced"),
)

CURSORS = ("line start", "after indent", "inside")


def typed_part(problem: Problem, cursor: str) -> str:
    """What of the wanted line stands before the cursor already."""
    line = problem.solution.removesuffix("\n")
    num_indent = len(line) - len(line.lstrip())
    if cursor == "line start":
        return ""
    if cursor == "after indent":
        return line[:num_indent]
    rng = random.Random(problem.task_id)
    return line[: rng.randint(num_indent + 1, max(num_indent + 1, len(line) - 1))]


def pass_rate(model: Model, problems: list[Problem], variant: Variant, cursor: str) -> float:
    """Share of problems whose tests pass with the first non-blank line that the model gives."""
    num_passed = 0
    for problem in problems:
        typed = typed_part(problem, cursor)
        line = typed + answered_line(model, problem, variant, typed)
        num_passed += passes(problem, line + "\n")
    return num_passed / len(problems)


def answered_line(model: Model, problem: Problem, variant: Variant, typed: str) -> str:
    """What the model adds to the line, empty if it does not begin with the held token."""
    kept, held = variant.split(problem.prefix + typed)
    prompt = ORDERS[variant.order](kept, "\n" + problem.suffix)
    answer = model.complete(
        prompt,
        max_tokens=64,
        starts_with=held if variant.healing == "forced" else "",
        is_enough=lambda text: "\n" in text[len(held) :].lstrip("\n"),
    )
    text = without_start(answer.text, held) or ""
    return (text if typed.strip() else text.lstrip("\n")).partition("\n")[0]


@dataclass(frozen=True)
class Typing:
    at_once: int
    """Tokens computed by one request after all the characters."""
    each_key_total: int
    each_key_median: float


def recomputed_tokens(model: Model, variant: Variant, *, freeze_suffix: bool) -> Typing:
    """Type 40 characters; the editor closes the bracket, and the text after the cursor begins with
    it unless the suffix is frozen as it stood before the first character."""

    def ask(num_typed: int) -> int:
        typed = TYPED[:num_typed]
        closing = ")" * (typed.count("(") - typed.count(")"))
        suffix = TYPED_AFTER if freeze_suffix else closing + TYPED_AFTER
        prefix, _ = variant.split(TYPED_BEFORE + typed)
        prompt = ORDERS[variant.order](prefix, suffix)
        return model.complete(prompt, max_tokens=4).num_prefill_tokens

    ask(0)
    at_once = ask(len(TYPED))
    ask(0)
    each = [ask(num_typed) for num_typed in range(1, len(TYPED) + 1)]
    return Typing(at_once, sum(each), statistics.median(each))


def typing_table(model: Model, reusing: Model, variants: Sequence[Variant]) -> Iterator[str]:
    yield f"{'recomputed tokens, 40 characters':54} {'at once':>8} {'each key':>9} {'median':>7}"
    for variant in variants:
        for label, used, freeze in (
            ("live suffix", model, False),
            ("frozen suffix", model, True),
            ("live suffix, shifted cache", reusing, False),
        ):
            typing = recomputed_tokens(used, variant, freeze_suffix=freeze)
            yield (
                f"{f'{variant}, {label}':54} {typing.at_once:8} {typing.each_key_total:9} "
                f"{typing.each_key_median:7.0f}"
            )


def quality_table(
    model: Model, problems: list[Problem], variants: Sequence[Variant]
) -> Iterator[str]:
    yield f"{'pass@1':32}" + "".join(f"{cursor:>14}" for cursor in CURSORS) + f"{'seconds':>9}"
    for variant in variants:
        start = time.perf_counter()
        rates = [pass_rate(model, problems, variant, cursor) for cursor in CURSORS]
        seconds = time.perf_counter() - start
        yield f"{variant!s:32}" + "".join(f"{rate:14.2f}" for rate in rates) + f"{seconds:9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gguf", type=Path, required=True, help="a Qwen2.5-Coder GGUF")
    parser.add_argument("--data", type=Path, required=True, help="single-line infilling, jsonl.gz")
    parser.add_argument("--num-problems", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument(
        "--tables", nargs="+", choices=("typing", "quality"), default=("typing", "quality")
    )
    parser.add_argument(
        "--variants",
        type=int,
        nargs="+",
        choices=range(len(VARIANTS)),
        default=range(len(VARIANTS)),
        metavar="N",
        help="; ".join(f"{index}: {variant}" for index, variant in enumerate(VARIANTS)),
    )
    args = parser.parse_args()

    problems = read_problems(args.data, num_problems=args.num_problems, seed=args.seed)
    model = Model(args.gguf, num_threads=args.threads)
    print(f"{args.gguf.name}, {len(problems)} problems, seed {args.seed}, greedy")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs")
    variants = [VARIANTS[number] for number in args.variants]
    if "typing" in args.tables:
        reusing = Model(args.gguf, num_threads=args.threads, cache_reuse=16)
        for line in typing_table(model, reusing, variants):
            print(line, flush=True)
    if "quality" in args.tables:
        for line in quality_table(model, problems, variants):
            print(line, flush=True)


if __name__ == "__main__":
    main()
