"""Floors against numbers reckoned by hand."""

import pytest

from benchmarks.roofline import BF16, GPUS, MXFP8, Gpu, gemm_floor, layer_floor
from benchmarks.shapes import LayerShape

SHAPE = LayerShape(name="", D=64, F=32, E=4, top_k=2)
GPU = Gpu(
    name="",
    torch_name="",
    target="",
    bytes_per_s=1000.0,
    bf16_per_s=1e6,
    mxfp8_per_s=2e6,
    source="",
)


def test_a_layer_by_hand():
    floor = layer_floor(SHAPE, 3, BF16, GPU, num_experts=4)
    # 4 experts of 3 * 64 * 32 weights; x 3 * 64, h twice 6 * 32, y 6 * 64 numbers, each of 2 bytes.
    assert floor.num_bytes == 2 * (4 * 6144 + 192 + 384 + 384)
    assert floor.num_operations == 2 * 6 * 6144
    assert floor.memory_s == floor.num_bytes / 1000
    assert floor.arithmetic_s == pytest.approx(floor.num_operations / 1e6)
    assert floor.binds == "memory"
    assert floor.seconds == floor.memory_s


def test_mxfp8_has_scales_and_a_rate_of_its_own():
    floor = layer_floor(SHAPE, 3, MXFP8, GPU, num_experts=4)
    assert floor.num_bytes == (4 * 6144 + 192 + 384) * 33 / 32 + 384 * 2
    assert floor.arithmetic_s == pytest.approx(floor.num_operations / 2e6)
    hopper = next(gpu for gpu in GPUS if gpu.target == "sm_90")
    rate = floor.num_operations / layer_floor(SHAPE, 3, MXFP8, hopper).arithmetic_s
    assert rate == pytest.approx(hopper.bf16_per_s)


def test_one_gemm_by_hand():
    floor = gemm_floor(10, 8, 16, 2, BF16, GPU)
    assert floor.num_bytes == 2 * (2 * 8 * 16 + 10 * 16 + 10 * 8)
    assert floor.num_operations == 2 * 10 * 8 * 16


def test_experts_in_use():
    assert SHAPE.expected_experts(1) == 2
    assert SHAPE.expected_experts(2) == 3
    assert SHAPE.expected_experts(1000) == pytest.approx(4)
