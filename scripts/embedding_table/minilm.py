"""Embeds single words with all-MiniLM-L6-v2: where the table's training starts from."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

_NUM_LAYERS, _NUM_HEADS, _EPSILON = 6, 12, 1e-12


def embed_words(folder: Path, words: list[str], batch: int = 512) -> torch.Tensor:
    """Returns float32 [len(words), 384], the mean of the last layer over each word's pieces.

    `folder` holds the model's `model.safetensors` and `tokenizer.json`.
    """
    weights = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    pieces = [encoding.ids[:12] for encoding in tokenizer.encode_batch(words)]
    order = sorted(range(len(words)), key=lambda i: len(pieces[i]))
    embedded = torch.zeros(len(words), weights["embeddings.LayerNorm.bias"].shape[0])
    # Words of one batch have nearly one length, so little is padding.
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        width = max(len(pieces[i]) for i in chosen)
        ids = torch.tensor([pieces[i] + [0] * (width - len(pieces[i])) for i in chosen])
        embedded[torch.tensor(chosen)] = _forward(weights, ids)
    return embedded


@torch.inference_mode()
def _forward(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    def dense(x: torch.Tensor, name: str) -> torch.Tensor:
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return layer_norm(x, (x.shape[-1],), weight, bias, _EPSILON)

    mask = ids != 0
    embeddings = "embeddings."
    x = (
        weights[f"{embeddings}word_embeddings.weight"][ids]
        + weights[f"{embeddings}position_embeddings.weight"][: ids.shape[1]]
        + weights[f"{embeddings}token_type_embeddings.weight"][0]
    )
    x = norm(x, f"{embeddings}LayerNorm")
    num_batch, num_tokens, dim = x.shape
    for i in range(_NUM_LAYERS):
        layer = f"encoder.layer.{i}"

        def heads(name: str, x: torch.Tensor = x, layer: str = layer) -> torch.Tensor:
            projected = dense(x, f"{layer}.attention.self.{name}")
            return projected.view(num_batch, num_tokens, _NUM_HEADS, -1).transpose(1, 2)

        attended = scaled_dot_product_attention(
            heads("query"), heads("key"), heads("value"), attn_mask=mask[:, None, None, :]
        )
        attended = attended.transpose(1, 2).reshape(num_batch, num_tokens, dim)
        attended = dense(attended, f"{layer}.attention.output.dense")
        x = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = gelu(dense(x, f"{layer}.intermediate.dense"))
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    weight = mask.unsqueeze(-1).float()
    return (x * weight).sum(1) / weight.sum(1)
