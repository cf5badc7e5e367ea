"""The experts of every token, as the model chooses them when it reads the whole text at once."""

import pytest
import torch

from composer_inference.batching.router_choices import RouterChoices
from composer_inference.batching.sequence import Sequence
from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.config import (
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.model import Decoder
from composer_inference.decoder.rope import RopeConfig
from composer_inference.drafts.drafter import Drafter
from composer_inference.priority import Priority
from composer_kernels import RouterConfig, Scoring
from tests.composer_inference.batching.test_drafts_in_steps import Oracle
from tests.composer_inference.batching.tiny import (
    BLOCK_SIZE,
    CPU,
    VOCABULARY_SIZE,
    Machine,
    Received,
    pool_of,
    sequence_of,
)

PROMPT = [7 * each % 64 for each in range(30)]


@pytest.fixture(scope="module")
def mixture() -> Decoder:
    """Two layers of which choose two of six experts; one between them is dense."""
    torch.set_num_threads(1)
    attention = AttentionConfig(num_heads=2, num_kv_heads=1, head_dim=8)
    router = RouterConfig(top_k=2, scoring=Scoring.SOFTMAX)
    moe = MoEConfig(num_experts=6, expert_dim=32, router=router)
    feed_forwards = (moe, MLPConfig(hidden_dim=32), moe)
    config = DecoderConfig(
        family="qwen3_moe",
        vocab_size=VOCABULARY_SIZE,
        model_dim=32,
        max_positions=512,
        norm_eps=1e-6,
        tie_embeddings=False,
        rope=RopeConfig(theta=10000.0, dim=8),
        layers=tuple(LayerConfig(attention=attention, feed_forward=each) for each in feed_forwards),
    )
    decoder = Decoder(config, dtype=torch.float32, experts="f32")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return decoder.requires_grad_(False)


def told(prompt: list[int], received: Received, **options: object) -> Sequence:
    sequence = sequence_of(prompt, received, **options)  # pyright: ignore[reportArgumentType]
    sequence.router_choices = RouterChoices()
    return sequence


def at_once(decoder: Decoder, tokens: list[int]) -> list[list[list[int]]]:
    num_blocks = -(-len(tokens) // BLOCK_SIZE)
    span = Span(token_ids=tokens, num_cached=0, blocks=range(num_blocks))
    choices: list[torch.Tensor] = []
    batch = Batch.of([span], block_size=BLOCK_SIZE, device=CPU)
    decoder(batch, pool_of(decoder, num_blocks), router_choices=choices)
    return torch.stack(choices, dim=1).tolist()


def check(decoder: Decoder, prompt: list[int], received: Received) -> None:
    *before, last = received.chunks
    expected = at_once(decoder, [*prompt, *received.token_ids][:-1])
    assert last.router_choices == expected
    assert all(chunk.router_choices is None for chunk in before)
    assert len({str(choice) for choice in expected}) > 10, "they hardly differ"


def test_of_a_prompt_in_parts_and_beside_others(mixture: Decoder) -> None:
    machine = Machine.of(mixture)
    first, second, unasked = Received(), Received(), Received()
    other = [3 * each % 64 for each in range(25)]
    machine.batcher.add(told(PROMPT, first, max_tokens=12, ignore_eos=True))
    machine.batcher.add(sequence_of([5, 6, 7], unasked, max_tokens=20, ignore_eos=True))
    machine.batcher.add(told(other, second, max_tokens=9, ignore_eos=True))
    machine.run()
    check(mixture, PROMPT, first)
    check(mixture, other, second)
    assert all(chunk.router_choices is None for chunk in unasked.chunks)


@pytest.mark.parametrize("share_wrong", [0.0, 0.3, 1.0])
def test_of_drafted_tokens(mixture: Decoder, share_wrong: float) -> None:
    plain = Received()
    machine = Machine.of(mixture)
    machine.batcher.add(sequence_of(PROMPT, plain, max_tokens=40, ignore_eos=True))
    machine.run()
    drafter: Drafter = Oracle(plain.token_ids, share_wrong)
    drafted = Received()
    machine.batcher.add(told(PROMPT, drafted, max_tokens=40, ignore_eos=True, drafter=drafter))
    machine.run()
    check(mixture, PROMPT, drafted)
    timings = drafted.chunks[-1].timings
    assert timings.num_cached_tokens == 0, "what is cached was not computed"
    counts = machine.stepper.counts
    assert timings.num_drafted == counts.num_drafted > 30
    assert timings.num_draft_accepted == counts.num_draft_accepted
    assert (timings.num_draft_accepted == timings.num_drafted) == (share_wrong == 0.0)


def test_of_a_text_that_ends_amid_a_draft(mixture: Decoder) -> None:
    plain = Received()
    machine = Machine.of(mixture)
    machine.batcher.add(sequence_of(PROMPT, plain, max_tokens=40, ignore_eos=True))
    machine.run()
    stop = plain.text[10:14]
    drafter: Drafter = Oracle(plain.token_ids, 0.0)
    drafted = Received()
    machine.batcher.add(
        told(PROMPT, drafted, max_tokens=40, ignore_eos=True, drafter=drafter, stop=(stop,))
    )
    machine.run()
    assert len(drafted.token_ids) < 40
    check(mixture, PROMPT, drafted)


def test_of_one_that_lost_its_memory(mixture: Decoder) -> None:
    machine = Machine.of(mixture, num_blocks=12)
    agent, tab = Received(), Received()
    machine.batcher.add(told(PROMPT, agent, ignore_eos=True))
    while not agent.token_ids:
        machine.step()
    machine.batcher.add(sequence_of([9] * 16, tab, priority=Priority.TAB, max_tokens=1))
    machine.run()
    assert agent.chunks[-1].timings.num_preemptions == 1
    check(mixture, PROMPT, agent)


@pytest.mark.parametrize("max_tokens", [16, len(PROMPT) - 1])
def test_of_a_prompt_alone(mixture: Decoder, max_tokens: int) -> None:
    received = Received()
    machine = Machine.of(mixture, max_tokens=max_tokens)
    machine.batcher.add(told(PROMPT, received, max_tokens=0))
    machine.run()
    assert received.chunks[-1].router_choices == at_once(mixture, PROMPT)
