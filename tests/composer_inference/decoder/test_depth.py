"""A fact placed at ten depths of a long context, asked for at its end: the answers of transformers, of
the same weights."""

from collections.abc import Iterator

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint
from tests.support.models import model_path

pytestmark = pytest.mark.model

CPU = torch.device("cpu")
BLOCK_SIZE = 16
CHUNK = 512
NUM_ANSWERED = 6
FACT = "\nThe password of the server is banana-tiger. Remember it.\n"
QUESTION = "\n\nThe password of the server is"


@pytest.fixture(scope="module")
def smollm() -> Iterator[tuple[Checkpoint, Vocabulary]]:
    path = model_path("smollm2-135m")
    checkpoint = open_checkpoint(path)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield checkpoint, read_vocabulary(path, num_embeddings=checkpoint.config["vocab_size"])
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def ours(smollm: tuple[Checkpoint, Vocabulary]) -> Decoder:
    return load_decoder(smollm[0], dtype=torch.float32, device=CPU)


@pytest.fixture(scope="module")
def theirs(smollm: tuple[Checkpoint, Vocabulary]) -> LlamaForCausalLM:
    checkpoint = smollm[0]
    config = LlamaConfig(**checkpoint.config)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights = {name: checkpoint.tensor(name).float() for name in checkpoint.shapes}
    weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    model.load_state_dict(weights, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # Its buffers are not stored.
    return model.eval()


def with_fact(vocabulary: Vocabulary, num_tokens: int, depth: float) -> list[int]:
    """A log of `num_tokens` tokens at most, the question at its end."""
    fact = vocabulary.encode(FACT)
    question = vocabulary.encode(QUESTION)
    filler = vocabulary.encode(
        "".join(f"Step {number} of the build went well.\n" for number in range(num_tokens))
    )[: num_tokens - len(fact) - len(question)]
    at = int(depth * len(filler))
    return [*filler[:at], *fact, *filler[at:], *question]


@torch.inference_mode()
def answered(decoder: Decoder, prompt: list[int]) -> list[int]:
    num_blocks = -(-(len(prompt) + NUM_ANSWERED) // BLOCK_SIZE)
    pool = KVPool(
        decoder.cache_shapes,
        num_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
        device=CPU,
    )
    tokens = list(prompt)
    num_cached = 0
    while len(tokens) < len(prompt) + NUM_ANSWERED:
        new = tokens[num_cached : num_cached + CHUNK]
        span = Span(token_ids=new, num_cached=num_cached, blocks=range(num_blocks))
        logits_RV = decoder(Batch.of([span], block_size=BLOCK_SIZE, device=CPU), pool)
        num_cached += len(new)
        if num_cached == len(tokens):
            tokens.append(int(logits_RV[0].argmax()))
    return tokens[len(prompt) :]


@torch.inference_mode()
def answered_by_transformers(model: LlamaForCausalLM, prompt: list[int]) -> list[int]:
    given = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=NUM_ANSWERED,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return given[0, len(prompt) :].tolist()


def check(
    smollm: tuple[Checkpoint, Vocabulary],
    ours: Decoder,
    theirs: LlamaForCausalLM,
    num_tokens: int,
    depth: float,
) -> str:
    prompt = with_fact(smollm[1], num_tokens, depth)
    assert num_tokens - 1 <= len(prompt) <= num_tokens
    answer = answered(ours, prompt)
    assert answer == answered_by_transformers(theirs, prompt)
    return "".join(map(smollm[1].token_text, answer))


@pytest.mark.parametrize("depth", [0.1, 0.9])
def test_a_fact_is_found_in_a_short_context(
    smollm: tuple[Checkpoint, Vocabulary], ours: Decoder, theirs: LlamaForCausalLM, depth: float
) -> None:
    assert "banana-tiger" in check(smollm, ours, theirs, 300, depth)


@pytest.mark.soak
@pytest.mark.parametrize("depth", [each / 10 for each in range(10)])
def test_answers_are_theirs_up_to_the_models_window(
    smollm: tuple[Checkpoint, Vocabulary], ours: Decoder, theirs: LlamaForCausalLM, depth: float
) -> None:
    # Whether the model still finds it there is the model's own affair.
    check(smollm, ours, theirs, ours.config.max_positions - NUM_ANSWERED, depth)
