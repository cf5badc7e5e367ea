"""Requests that share prefixes, fork, end anywhere and run out of blocks, over simulated contents:
what a lease finds in its blocks must be what it, or someone of its prefix, computed."""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from composer_inference.kv.blocks import OutOfBlocksError
from composer_inference.kv.prefix_cache import Lease, PrefixCache


@dataclass
class Request:
    lease: Lease
    tokens: list[int]
    num_computed: int
    weights: list[int]
    """The version that computed each token."""


class Lifetimes:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.block_size = self.random.choice([1, 2, 4, 16])
        self.cache = PrefixCache(self.random.choice([3, 12, 40, 150]), self.block_size)
        self.contents: dict[int, dict[int, tuple[int, int]]] = {}
        self.running: list[Request] = []
        self.weights = 0
        self.seen = Counter[str]()
        self.trunks = [self.text() for _ in range(4)]

    def text(self) -> list[int]:
        return [self.random.randrange(2) for _ in range(self.random.randrange(self.block_size * 6))]

    def start(self) -> None:
        trunk = self.random.choice(self.trunks)
        tokens = trunk[: self.random.randrange(len(trunk) + 1)] + self.text() + [7]
        if self.random.random() < 0.2:
            self.trunks[self.random.randrange(4)] = tokens[:-1]
        self.run(self.cache.acquire(tokens), tokens)

    def branch(self) -> None:
        """From a text that is computed."""
        if self.running:
            request = self.random.choice(self.running)
            shared = request.tokens[: self.random.randrange(len(request.tokens) + 1)]
            tokens = [*shared, *self.text(), 7]
            self.run(self.cache.acquire(tokens), tokens)

    def run(self, lease: Lease, tokens: list[int]) -> None:
        assert lease.num_cached < len(tokens)
        self.seen["hit"] += lease.num_cached > 0
        weights = [self.weights] * lease.num_cached
        self.running.append(Request(lease, tokens, lease.num_cached, weights))

    def step(self) -> None:
        """Compute some tokens, of which some may have been drafted wrongly, and decode one."""
        if not self.running:
            return
        request = self.random.choice(self.running)
        end = min(request.num_computed + self.random.randint(1, 20), len(request.tokens))
        drafted = [9] * self.random.randrange(3)
        if not self.reserve(request, end + len(drafted)):
            return
        for place in range(request.num_computed, end + len(drafted)):
            token = request.tokens[place] if place < end else 9
            self.write(request.lease.blocks[place // self.block_size], place, token)
        request.weights += [self.weights] * (end - request.num_computed)
        request.num_computed = end
        if self.random.random() < 0.8:
            request.lease.commit(request.tokens[:end])
        if end == len(request.tokens):
            request.tokens.append(self.random.randrange(2))

    def reserve(self, request: Request, num_tokens: int) -> bool:
        before = list(request.lease.blocks), self.counts()
        try:
            request.lease.reserve(num_tokens)
        except OutOfBlocksError as error:
            self.seen["out of blocks"] += 1
            assert error.available == self.cache.num_free + self.cache.num_cached < error.needed
            assert (request.lease.blocks, self.counts()) == before
            self.end(request)
            return False
        return True

    def write(self, block: int, place: int, token: int) -> None:
        self.contents.setdefault(block, {})[place % self.block_size] = (self.weights, token)

    def end(self, request: Request | None = None) -> None:
        if self.running:
            request = request or self.random.choice(self.running)
            self.running.remove(request)
            request.lease.release()
            self.seen["lifetimes"] += 1

    def new_weights(self) -> None:
        self.weights += 1
        self.cache.clear()

    def counts(self) -> tuple[int, int, int]:
        return self.cache.num_free, self.cache.num_cached, self.cache.num_held

    def check(self) -> None:
        self.cache.check_integrity()
        for request in self.running:
            expected = list(zip(request.weights, request.tokens, strict=False))
            found = [
                self.contents[request.lease.blocks[place // self.block_size]][
                    place % self.block_size
                ]
                for place in range(request.num_computed)
            ]
            assert found == expected

    def live(self, num_lifetimes: int) -> None:
        moves = [self.start, self.branch, self.step, self.end, self.new_weights]
        while self.seen["lifetimes"] < num_lifetimes:
            self.random.choices(moves, weights=[10, 3, 60, 8, 0.3])[0]()
            self.check()
        for request in list(self.running):
            self.end(request)
            self.check()
        assert self.cache.num_held == 0
        self.cache.clear()
        assert self.cache.num_free == self.cache.num_blocks


@pytest.mark.parametrize(
    ("num_seeds", "num_lifetimes"),
    [pytest.param(20, 25, id="500"), pytest.param(50, 200, id="10000", marks=pytest.mark.soak)],
)
def test_no_block_is_lost_and_none_holds_another_text(num_seeds: int, num_lifetimes: int) -> None:
    seen = Counter[str]()
    for seed in range(num_seeds):
        lifetimes = Lifetimes(seed)
        lifetimes.live(num_lifetimes)
        seen += lifetimes.seen
    assert seen["lifetimes"] >= num_seeds * num_lifetimes
    assert min(seen["hit"], seen["out of blocks"]) > num_seeds
