"""`transformers` with the same weights: the ways in which it can be made to decode, and the fastest.

Its own loop of `generate` is left out: forward and argmax alone, which is faster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench.measure import Product, Seconds
from composer_inference.weights.checkpoint import Checkpoint

MAX_TOKENS = 1024
"""Of a sequence in a static cache."""
_TRIALS = 3
_TRIAL_TOKENS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way to run the peer."""

    attention: str
    static_cache: bool = False
    compiled: bool = False
    """For decoding; each length of a prompt would be compiled anew, for minutes."""

    @property
    def name(self) -> str:
        parts = [self.attention, "static cache" if self.static_cache else "growing cache"]
        return ", ".join([*parts, "torch.compile"] if self.compiled else parts)


WAYS = (
    Way(attention="sdpa"),
    Way(attention="eager"),
    Way(attention="sdpa", static_cache=True),
    Way(attention="sdpa", static_cache=True, compiled=True),
)


@dataclass(slots=True)
class Trial:
    way: Way
    prefill_s: float = float("inf")
    decode_s: float = float("inf")
    """Of a token."""
    first_s: float = 0.0
    """Of the first prefill and decode, in which the model is compiled if it is."""
    failure: str = ""


class Peer:
    def __init__(self, checkpoint: Checkpoint, dtype: torch.dtype) -> None:
        import transformers  # Takes seconds, and is needed for this alone.

        self._library: Any = transformers
        config = self._library.AutoConfig.for_model(**dict(checkpoint.config))
        model = self._library.AutoModelForCausalLM.from_config(config, dtype=dtype)
        weights = {name: checkpoint.tensor(name).to(dtype) for name in checkpoint.shapes}
        missing, unexpected = model.load_state_dict(weights, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        self.model: Any = model.eval().requires_grad_(False)
        self._compiled: Any = torch.compile(self.model)
        self.for_prefill = self.for_decode = WAYS[0]

    def choose(self, prompt_ids: Sequence[int]) -> list[Trial]:
        """Try all ways, and take the fastest of each kind from then on."""
        trials = [self._tried(way, prompt_ids) for way in WAYS]
        self.for_prefill = min(trials, key=lambda trial: trial.prefill_s).way
        self.for_decode = min(trials, key=lambda trial: trial.decode_s).way
        return trials

    def prefill(self, prompt_ids: Sequence[int]) -> Seconds:
        """To the first token."""
        return self._prefill(self.for_prefill, [prompt_ids])[2]

    def decode(
        self, prompts: Sequence[Sequence[int]], num_tokens: int
    ) -> tuple[list[list[int]], Seconds]:
        """Greedy: the tokens of each, and the time of all but the first. Prompts of one length."""
        return self._decode(self.for_decode, prompts, num_tokens)

    def products(self) -> list[Product]:
        """Of the layers, and at the end the output's."""
        modules: Iterator[nn.Module] = self.model.modules()
        linears = [module for module in modules if isinstance(module, nn.Linear)]
        return [(module, module.in_features) for module in linears]

    def _tried(self, way: Way, prompt_ids: Sequence[int]) -> Trial:
        trial = Trial(way)
        start = Seconds.now()
        try:
            for attempt in range(_TRIALS + 1):
                prefill = self._prefill(way, [prompt_ids])[2]
                _, decode = self._decode(way, [prompt_ids], _TRIAL_TOKENS + 1)
                if attempt:
                    trial.prefill_s = min(trial.prefill_s, prefill.wall)
                    trial.decode_s = min(trial.decode_s, decode.wall / _TRIAL_TOKENS)
                else:
                    trial.first_s = (Seconds.now() - start).wall
        except Exception as error:  # A compiler that is not there, say: the other ways count then.
            trial.failure = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        return trial

    def _prefill(self, way: Way, prompts: Sequence[Sequence[int]]) -> tuple[Any, Tensor, Seconds]:
        config = self.model.config
        config._attn_implementation = way.attention
        cache: Any = (
            self._library.StaticCache(config=config, max_cache_len=MAX_TOKENS)
            if way.static_cache
            else self._library.DynamicCache(config=config)
        )
        ids = torch.tensor(prompts)
        start = Seconds.now()
        tokens = self._next(way, ids, cache)
        return cache, tokens, Seconds.now() - start

    def _decode(
        self, way: Way, prompts: Sequence[Sequence[int]], num_tokens: int
    ) -> tuple[list[list[int]], Seconds]:
        cache, tokens, _ = self._prefill(way, prompts)
        decoded = [tokens]
        start = Seconds.now()
        for _ in range(num_tokens - 1):
            decoded.append(self._next(way, decoded[-1], cache))
        seconds = Seconds.now() - start
        columns: list[list[int]] = [_integers(tokens) for tokens in decoded]
        return [list(row) for row in zip(*columns, strict=True)], seconds

    def _next(self, way: Way, ids: Tensor, cache: Any) -> Tensor:
        model = self._compiled if way.compiled and ids.shape[1] == 1 else self.model
        with torch.inference_mode():
            out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return out.logits[:, -1].argmax(-1, keepdim=True)


def _integers(ids: Tensor) -> list[int]:
    return [int(token_id) for token_id in ids.flatten()]
