from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from composer_inference.gguf import GgufMetadata
from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.gguf_checkpoint import GgufCheckpoint
from composer_inference.weights.safetensors_checkpoint import SafetensorsCheckpoint
from tests.support.gguf_models import pack_mxfp4, write_gguf

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rms_norm_eps": 1e-6,
}
SHARED: dict[str, Any] = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_shared_experts": 2,
    "routed_scaling_factor": 2.5,
    "n_group": 1,
    "topk_group": 1,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "rope_theta": 1e5},
    "llama with biases": {"model_type": "llama", "attention_bias": True},
    "llama, linear": {
        "model_type": "llama",
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0},
    },
    "llama, tied": {"model_type": "llama", "tie_word_embeddings": True},
    "mixtral": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": {"model_type": "qwen2"},
    "qwen2, yarn": {
        "model_type": "qwen2",
        "rope_parameters": YARN | {"original_max_position_embeddings": 32},
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 32},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        "head_dim": 32,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "norm_topk_prob": True,
    },
    "olmoe": {"model_type": "olmoe", "num_experts": 4, "num_experts_per_tok": 2},
    "glm4_moe": {
        "model_type": "glm4_moe",
        "head_dim": 32,
        "attention_bias": True,
        "use_qk_norm": True,
        **SHARED,
    },
    "deepseek_v2": {
        "model_type": "deepseek_v2",
        **SHARED,
        **LATENT,
        "q_lora_rank": None,
        "norm_topk_prob": False,
        "topk_method": "greedy",
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        **SHARED,
        **LATENT,
        "q_lora_rank": 24,
        "n_group": 2,
        "rope_parameters": YARN
        | {"original_max_position_embeddings": 32, "mscale": 0.7, "mscale_all_dim": 0.7},
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        "head_dim": 16,
        "attention_bias": True,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 8,
        "rope_parameters": YARN
        | {
            "original_max_position_embeddings": 32,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
        },
    },
}


def make_model(folder: Path, values: dict[str, Any]) -> SafetensorsCheckpoint:
    """Of random weights, where transformers would have ones and zeros too."""
    torch.manual_seed(0)
    config: Any = transformers.AutoConfig.for_model(**SIZES | values)
    model: Any = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor.normal_(std=0.5)
    model.save_pretrained(folder)
    return SafetensorsCheckpoint(folder)


def tensors_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {name: checkpoint.tensor(name) for name in checkpoint.shapes}


def assert_same_config(read: Any, original: Any) -> None:
    """As transformers understands them, but for what GGUF does not hold, and what it knows of
    DeepSeek by the class alone."""
    unknown = {"architectures", "dtype", "pad_token_id", "num_nextn_predict_layers"}
    expected, found = (
        transformers.AutoConfig.for_model(**config).to_dict() for config in (original, read)
    )
    for name in expected.keys() - unknown:
        if name != "head_dim" or expected[name] is not None:
            assert found[name] == expected[name], name


@pytest.mark.parametrize("name", MODELS)
def test_is_the_checkpoint_that_it_was_made_of(name: str, tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS[name])
    write_gguf(tmp_path / "model.gguf", original.config, tensors_of(original))
    read = GgufCheckpoint(tmp_path / "model.gguf")
    assert dict(read.shapes) == dict(original.shapes)
    for tensor_name, expected in tensors_of(original).items():
        assert read.dtype(tensor_name) == torch.float32
        assert read.tensor(tensor_name).shape == expected.shape
        assert torch.equal(read.tensor(tensor_name), expected), tensor_name
    assert_same_config(read.config, original.config)


def test_deepseek_with_whole_keys(tmp_path: Path) -> None:
    """As files had it before the latent came to be cached."""
    original = make_model(tmp_path, MODELS["deepseek_v3"])
    write_gguf(tmp_path / "model.gguf", original.config, tensors_of(original), latent_split=False)
    read = GgufCheckpoint(tmp_path / "model.gguf")
    name = "model.layers.1.self_attn.kv_b_proj.weight"
    assert torch.equal(read.tensor(name), original.tensor(name))
    assert_same_config(read.config, original.config)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_quantised(name: str, kind: str, tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS[name])
    quantization = GGMLQuantizationType[kind]
    write_gguf(tmp_path / "model.gguf", original.config, tensors_of(original), kind=quantization)
    read = GgufCheckpoint(tmp_path / "model.gguf")
    kept = {"F16": torch.float16, "BF16": torch.bfloat16}.get(kind, torch.float32)
    for tensor_name, expected in tensors_of(original).items():
        values = expected.numpy()
        is_matrix = values.ndim > 1
        if is_matrix:
            values = quants.dequantize(quants.quantize(values, quantization), quantization)
        assert read.dtype(tensor_name) == (kept if is_matrix else torch.float32)
        assert read.tensor(tensor_name).dtype == read.dtype(tensor_name)
        assert torch.equal(read.tensor(tensor_name).float(), torch.from_numpy(values))


def test_many_chunks(tmp_path: Path) -> None:
    """A tensor that is dequantised in several parts, the last of them smaller."""
    original = make_model(tmp_path, MODELS["qwen2"] | {"vocab_size": 5000})
    q8 = GGMLQuantizationType.Q8_0
    write_gguf(tmp_path / "model.gguf", original.config, tensors_of(original), kind=q8)
    values = original.tensor("model.embed_tokens.weight").numpy()
    expected = torch.from_numpy(quants.dequantize(quants.quantize(values, q8), q8))
    read = GgufCheckpoint(tmp_path / "model.gguf").tensor("model.embed_tokens.weight")
    assert torch.equal(read, expected)


def test_gpt_oss_keeps_its_mxfp4(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["gpt_oss"])
    tensors = tensors_of(original)
    expected: dict[str, Tensor] = {}
    for layer in range(2):
        for module, rows, columns in (("gate_up_proj", 192, 64), ("down_proj", 64, 96)):
            name = f"model.layers.{layer}.mlp.experts.{module}"
            del tensors[name]
            blocks = torch.randint(0, 256, (4, rows, columns // 32, 16), dtype=torch.uint8)
            scales = torch.randint(0, 256, (4, rows, columns // 32), dtype=torch.uint8)
            expected |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
            tensors[f"{name}_packed"] = pack_mxfp4(blocks, scales)
    write_gguf(tmp_path / "model.gguf", original.config, tensors)
    read = GgufCheckpoint(tmp_path / "model.gguf")
    assert read.config["quantization_config"] == {"quant_method": "mxfp4"}
    for name, tensor in expected.items():
        assert read.shapes[name] == tensor.shape
        assert read.dtype(name) == torch.uint8
        assert torch.equal(read.tensor(name), tensor)


def test_llama3_frequencies(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    original = make_model(
        tmp_path, {"model_type": "llama", "head_dim": 64, "rope_parameters": rope}
    )
    config: Any = transformers.AutoConfig.for_model(**original.config)
    scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config)
    plain = 5e5 ** -(torch.arange(0, 64, 2) / 64)
    path = tmp_path / "model.gguf"
    extra = {"rope_freqs.weight": plain / scaled}
    write_gguf(path, original.config, tensors_of(original), extra=extra)
    assert_same_config(GgufCheckpoint(path).config, original.config)

    extra = {"rope_freqs.weight": torch.linspace(1.0, 64.0, 32)}
    write_gguf(path, original.config, tensors_of(original), extra=extra)
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight.*otherwise than Llama 3"):
        GgufCheckpoint(path)


def test_split_model(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    whole = tmp_path / "model.gguf"
    write_gguf(whole, original.config, tensors_of(original))
    names = list(GgufMetadata.read(whole).tensors)
    parts = split(whole, [names[:9], names[9:]])
    read = GgufCheckpoint(parts[0])
    for name, expected in tensors_of(original).items():
        assert torch.equal(read.tensor(name), expected)
    parts[1].unlink()
    with pytest.raises(CheckpointError, match=r"whole-00002-of-00002\.gguf is missing"):
        GgufCheckpoint(parts[0])
    with pytest.raises(CheckpointError, match="its name does not tell the others'"):
        GgufCheckpoint(parts[0].rename(tmp_path / "other.gguf"))


def split(whole: Path, names: list[list[str]]) -> list[Path]:
    reader = gguf.GGUFReader(whole)
    paths = [
        whole.with_name(f"whole-{number:05}-of-{len(names):05}.gguf")
        for number in range(1, len(names) + 1)
    ]
    for number, (path, chosen) in enumerate(zip(paths, names, strict=True)):
        writer = gguf.GGUFWriter(path, "qwen2")
        writer.add_uint16("split.count", len(names))
        if number == 0:
            for key, found in reader.fields.items():
                if not key.startswith("GGUF.") and key != "general.architecture":
                    writer.add_key_value(key, found.contents(), found.types[0])
        for tensor in reader.tensors:
            if tensor.name in chosen:
                writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return paths


def test_next_token_predictors_are_left_out(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["glm4_moe"])
    path = tmp_path / "model.gguf"
    extra = {"blk.2.nextn.eh_proj.weight": torch.zeros(64, 128)}
    config = dict(original.config) | {"num_hidden_layers": 2}
    write_gguf(path, config, tensors_of(original), extra=extra)
    rewrite(path, {"glm4moe.block_count": 3, "glm4moe.nextn_predict_layers": 1})
    assert GgufCheckpoint(path).shapes.keys() == original.shapes.keys()


def rewrite(path: Path, values: dict[str, Any], drop: tuple[str, ...] = ()) -> None:
    """The same file with other metadata, and without some tensors."""
    reader = gguf.GGUFReader(path)
    fields = {
        key: (found.contents(), found.types[0])
        for key, found in reader.fields.items()
        if not key.startswith("GGUF.") and key not in drop
    }
    kinds = {int: gguf.GGUFValueType.UINT32, str: gguf.GGUFValueType.STRING}
    fields |= {key: (value, kinds[type(value)]) for key, value in values.items()}
    changed = path.with_suffix(".changed")
    writer = gguf.GGUFWriter(changed, fields.pop("general.architecture")[0])
    for key, (value, kind) in fields.items():
        writer.add_key_value(key, value, kind)
    for tensor in reader.tensors:
        if tensor.name not in drop:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    changed.replace(path)


def test_architecture_without_names(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    path = tmp_path / "model.gguf"
    write_gguf(path, original.config, tensors_of(original))
    rewrite(path, {"general.architecture": "mamba"})
    with pytest.raises(
        CheckpointError, match=r"architecture mamba; this backend reads llama, .*gpt-oss"
    ):
        GgufCheckpoint(path)


@pytest.mark.parametrize(
    ("values", "drop", "message"),
    [
        pytest.param(
            {"qwen2.block_count": "two"}, (), r"qwen2\.block_count .*not a whole", id="text"
        ),
        pytest.param({}, ("qwen2.context_length",), r"say its qwen2\.context_length", id="no key"),
        pytest.param({}, ("token_embd.weight",), r"no tensor token_embd\.weight", id="no table"),
        pytest.param(
            {"qwen2.rope.scaling.type": "longrope", "qwen2.rope.scaling.factor": 4},
            (),
            "positions by longrope",
            id="scaling",
        ),
    ],
)
def test_metadata_that_does_not_do(
    values: dict[str, Any], drop: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    path = tmp_path / "model.gguf"
    write_gguf(path, original.config, tensors_of(original))
    rewrite(path, values, drop)
    with pytest.raises(CheckpointError, match=message):
        GgufCheckpoint(path)


def test_tensors_that_do_not_do(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    path = tmp_path / "model.gguf"
    write_gguf(path, original.config, tensors_of(original))
    rewrite(path, {}, ("blk.1.attn_q.weight",))
    read = GgufCheckpoint(path)
    with pytest.raises(
        CheckpointError, match=r"model\.layers\.1\.self_attn\.q_proj\.weight of a qwen2"
    ):
        read.tensor("model.layers.1.self_attn.q_proj.weight")
    extra = {"blk.1.attn_gate.weight": torch.zeros(64, 64)}
    write_gguf(path, original.config, tensors_of(original), extra=extra)
    with pytest.raises(CheckpointError, match=r"blk\.1\.attn_gate\.weight has no place in a qwen2"):
        GgufCheckpoint(path)


def test_cut_short(tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    path = tmp_path / "model.gguf"
    write_gguf(path, original.config, tensors_of(original))
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(CheckpointError, match=r"model\.gguf .*cut short.*fetch the model again"):
        GgufCheckpoint(path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param(99, "has ggml's type 99, which the installed gguf package", id="unknown"),
        pytest.param(26, r"is I32, .*cannot dequantise; take a file of another", id="no formula"),
    ],
)
def test_types_that_cannot_be_read(kind: int, message: str, tmp_path: Path) -> None:
    original = make_model(tmp_path, MODELS["qwen2"])
    path = tmp_path / "model.gguf"
    write_gguf(path, original.config, tensors_of(original))
    name = b"blk.1.attn_output.weight"
    content = bytearray(path.read_bytes())
    at = content.index(name) + len(name) + 4 + 2 * 8  # Behind the number of dimensions and both.
    content[at : at + 4] = kind.to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        GgufCheckpoint(path).tensor("model.layers.1.self_attn.o_proj.weight")
