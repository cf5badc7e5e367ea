"""Writes a transformers checkpoint as GGUF: names by the `gguf` package's own tables, metadata and
reordering as llama.cpp's conversion does them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

ARCHITECTURES = {
    "llama": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "olmoe": "olmoe",
    "glm4_moe": "glm4moe",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "gpt_oss": "gpt-oss",
}


def write_gguf(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    latent_split: bool = True,
    extra: Mapping[str, Tensor] | None = None,
    tokens: int = 0,
    control: bool = True,
) -> None:
    """Matrices with whole blocks become `kind`, everything else float32. `latent_split`: DeepSeek's
    newer form. `extra`: tensors by their GGUF names. `tokens`: of a byte-level vocabulary, without
    merges; all but three are `control` tokens, or text."""
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, architecture)
    _write_metadata(writer, config, latent_split)
    if tokens:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        words = ["a", "b", "ab", *(f"<{number}>" for number in range(tokens - 3))]
        writer.add_token_list(words)
        writer.add_token_types([1] * 3 + [3 if control else 1] * (tokens - 3))
        writer.add_token_merges(["a b"])
    converted = _converted(config, tensors, latent_split) | dict(extra or {})
    for name, tensor in converted.items():
        if tensor.dtype == torch.uint8:
            writer.add_tensor(name, tensor.numpy(), raw_dtype=GGMLQuantizationType.MXFP4)
            continue
        values = tensor.float().contiguous().numpy()
        is_whole = values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
        used = kind if values.ndim > 1 and is_whole else GGMLQuantizationType.F32
        writer.add_tensor(name, quants.quantize(values, used), raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_metadata(writer: gguf.GGUFWriter, config: Mapping[str, Any], latent_split: bool) -> None:
    is_deepseek = "kv_lora_rank" in config
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    one_key = is_deepseek and latent_split
    writer.add_head_count_kv(1 if one_key else config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    _write_rope(writer, config["rope_parameters"])
    _write_experts(writer, config)
    if is_deepseek:
        _write_latent(writer, config, latent_split)
    elif config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        share = config["rope_parameters"].get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(config["head_dim"] * share))
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _write_rope(writer: gguf.GGUFWriter, rope: Mapping[str, Any]) -> None:
    if rope["rope_type"] not in {"yarn", "linear"}:
        return
    writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
    writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "mscale_all_dim" in rope:
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def _write_experts(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    for key in ("num_experts", "num_local_experts", "n_routed_experts"):
        if config.get(key):
            writer.add_expert_count(config[key])
            writer.add_expert_used_count(config["num_experts_per_tok"])
    if config["model_type"] == "gpt_oss":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "n_shared_experts" in config:
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        softmax, sigmoid = gguf.ExpertGatingFuncType.SOFTMAX, gguf.ExpertGatingFuncType.SIGMOID
        writer.add_expert_gating_func(softmax if config["model_type"] == "deepseek_v2" else sigmoid)
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])


def _write_latent(writer: gguf.GGUFWriter, config: Mapping[str, Any], latent_split: bool) -> None:
    rope_dim, latent = config["qk_rope_head_dim"], config["kv_lora_rank"]
    key_dim, value_dim = config["qk_nope_head_dim"] + rope_dim, config["v_head_dim"]
    if config["q_lora_rank"] is not None:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(latent)
    writer.add_rope_dimension_count(rope_dim)
    writer.add_key_length(latent + rope_dim if latent_split else key_dim)
    writer.add_value_length(latent if latent_split else value_dim)
    if latent_split:
        writer.add_key_length_mla(key_dim)
        writer.add_value_length_mla(value_dim)


def _converted(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], latent_split: bool
) -> dict[str, Tensor]:
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    architecture = numbers[ARCHITECTURES[config["model_type"]]]
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    converted: dict[str, Tensor] = {}
    for name, tensor in _renamed(config, tensors, latent_split).items():
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        converted[found] = tensor
    return converted


def _renamed(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], latent_split: bool
) -> dict[str, Tensor]:
    """In the forms that GGUF has, with names that its tables know."""
    renamed: dict[str, Tensor] = {}
    experts: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        before, _, after = name.partition(".experts.")
        number, _, module = after.partition(".")
        if number.isdigit():
            experts.setdefault(f"{before}.experts.{module}", []).append(tensor)
        elif name.endswith("kv_b_proj.weight") and latent_split:
            heads = tensor.view(config["num_attention_heads"], -1, tensor.shape[1])
            keys, values = heads.split([config["qk_nope_head_dim"], config["v_head_dim"]], dim=1)
            renamed[name.replace("kv_b_proj", "k_b_proj")] = keys.transpose(1, 2)
            renamed[name.replace("kv_b_proj", "v_b_proj")] = values
        elif config["model_type"] in {"llama", "mixtral"} and (
            "q_proj" in name or "k_proj" in name
        ):
            kv = "num_key_value_heads" if "k_proj" in name else "num_attention_heads"
            halves = tensor.view(config[kv], 2, -1, *tensor.shape[1:])
            renamed[name] = halves.swapaxes(1, 2).reshape(tensor.shape)
        elif config["model_type"] == "gpt_oss" and ".experts." in name:
            renamed |= _gpt_oss(name, tensor)
        elif name.endswith(".sinks"):
            renamed[f"{name}.weight"] = tensor
        else:
            renamed[name.replace("e_score_correction_bias", "e_score_correction.bias")] = tensor
    return renamed | {name: torch.stack(parts) for name, parts in experts.items()}


def _gpt_oss(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """MXFP4 comes as `…_packed`, `[E, N, 17 * blocks]`: what GGUF holds."""
    suffix = ".bias" if name.endswith("_bias") else ".weight"
    module = name.removesuffix("_bias").removesuffix("_packed")
    if suffix == ".weight" and not name.endswith("_packed"):
        tensor = tensor.transpose(1, 2)
    if "gate_up_proj" not in module:
        return {module + suffix: tensor}
    return {
        module.replace("gate_up_proj", "gate_proj") + suffix: tensor[:, 0::2],
        module.replace("gate_up_proj", "up_proj") + suffix: tensor[:, 1::2],
    }


def pack_mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """`[E, N, blocks, 16]` and `[E, N, blocks]` of a gpt-oss checkpoint in GGUF's order of nibbles,
    one number at a time."""
    num_experts, num_rows, num_blocks, _ = blocks.shape
    packed = np.zeros((num_experts, num_rows, num_blocks, 17), dtype=np.uint8)
    packed[..., 0] = scales.numpy()
    codes = blocks.numpy()
    for element in range(32):
        code = codes[..., element // 2] >> 4 * (element % 2) & 0xF
        packed[..., 1 + element % 16] |= code << 4 * (element // 16)
    return torch.from_numpy(packed).flatten(2)
