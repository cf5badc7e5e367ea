"""Published layouts of experts' weights, brought into ours."""

import pytest
import torch

from composer_kernels import (
    DtypeError,
    ExpertWeights,
    KernelError,
    MXFP8Tensor,
    ShapeError,
    SwiGLU,
    from_gpt_oss,
    from_gpt_oss_mxfp4,
    interleave_gate_up,
    interleave_halves,
    quantize_experts,
    reference,
)

from .inputs import assert_same_codes


def test_gate_and_up_take_turns():
    gate = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    up = torch.tensor([[[5.0, 6.0], [7.0, 8.0]]])
    rows = [[[1.0, 2.0], [5.0, 6.0], [3.0, 4.0], [7.0, 8.0]]]
    assert interleave_gate_up(gate, up).tolist() == rows
    assert interleave_halves(torch.cat((gate, up), 1)).tolist() == rows


def test_biases_take_turns():
    assert interleave_halves(torch.tensor([[1, 2, 3, 4]])).tolist() == [[1, 3, 2, 4]]


def test_quantised_rows_move_whole():
    gate_up = torch.randn(2, 6, 40, generator=torch.Generator().manual_seed(0))
    quantized = reference.mxfp8_quantize(gate_up)
    codes = interleave_halves(quantized.codes.view(torch.uint8)).view(torch.float8_e4m3fn)
    moved = MXFP8Tensor(codes, interleave_halves(quantized.scales))
    assert_same_codes(moved, reference.mxfp8_quantize(interleave_halves(gate_up)))


def test_gpt_oss_rows_come_last():
    weight = torch.arange(6.0).reshape(1, 2, 3)
    ours = from_gpt_oss(weight)
    assert ours.tolist() == [[[0, 3], [1, 4], [2, 5]]]
    assert ours.is_contiguous()


def test_gpt_oss_blocks_keep_their_bytes():
    blocks = torch.arange(64, dtype=torch.uint8).reshape(1, 2, 2, 16)
    scales = torch.tensor([[[126, 127], [128, 129]]], dtype=torch.uint8)
    ours = from_gpt_oss_mxfp4(blocks, scales)
    assert ours.shape == (1, 2, 64)
    assert ours.codes.data_ptr() == blocks.data_ptr()
    values = reference.mxfp4_dequantize(ours)
    # Byte 33 is 0x21: codes 1 and 2, which are 0.5 and 1, in row 1's first block, times 2.
    assert values[0, 1, 2:4].tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("unchecked")
def test_layouts_refuse_other_shapes():
    with pytest.raises(ShapeError, match=r"up has shape \[1, 3\]; \[1, 2\]"):
        interleave_gate_up(torch.zeros(1, 2), torch.zeros(1, 3))
    with pytest.raises(DtypeError, match="up has dtype torch.float64"):
        interleave_gate_up(torch.zeros(1, 2), torch.zeros(1, 2).double())
    with pytest.raises(ShapeError, match=r"gate_up has shape \[1, 3\]; an even second dimension"):
        interleave_halves(torch.zeros(1, 3))
    byte = torch.uint8
    with pytest.raises(ShapeError, match=r"scales has shape \[1, 2, 3\]; \[1, 2, 2\]"):
        from_gpt_oss_mxfp4(torch.zeros(1, 2, 2, 16, dtype=byte), torch.zeros(1, 2, 3, dtype=byte))
    with pytest.raises(ShapeError, match=r"blocks has shape \[1, 2, 2, 8\]; 16 bytes a block"):
        from_gpt_oss_mxfp4(torch.zeros(1, 2, 2, 8, dtype=byte), torch.zeros(1, 2, 2, dtype=byte))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("gate_up", "down"),
    [
        ((2, 6, 4), (2, 4, 2)),
        ((2, 6, 4), (3, 4, 3)),
        ((2, 6, 4), (2, 5, 3)),
        ((2, 7, 4), (2, 4, 3)),
    ],
    ids=["other F", "other E", "other D", "odd rows"],
)
def test_weights_of_different_experts_are_refused(gate_up: tuple[int, ...], down: tuple[int, ...]):
    with pytest.raises(ShapeError, match="down has shape"):
        ExpertWeights(gate_up=torch.zeros(gate_up), down=torch.zeros(down))


def test_quantising_keeps_biases_and_activation():
    weights = ExpertWeights(
        gate_up=torch.randn(2, 6, 40),
        down=torch.randn(2, 40, 3),
        gate_up_bias=torch.randn(2, 6),
        down_bias=torch.randn(2, 40),
        activation=SwiGLU(limit=3.0),
    )
    quantized = quantize_experts(weights)
    assert isinstance(quantized.gate_up, MXFP8Tensor)
    assert isinstance(quantized.down, MXFP8Tensor)
    assert isinstance(weights.gate_up, torch.Tensor)
    assert isinstance(weights.down, torch.Tensor)
    assert_same_codes(quantized.gate_up, reference.mxfp8_quantize(weights.gate_up))
    assert_same_codes(quantized.down, reference.mxfp8_quantize(weights.down))
    assert quantized.gate_up_bias is weights.gate_up_bias
    assert quantized.down_bias is weights.down_bias
    assert quantized.activation is weights.activation
    with pytest.raises(KernelError, match="gate_up or down is quantised"):
        quantize_experts(quantized)


def test_a_limit_below_nothing_is_refused():
    with pytest.raises(KernelError, match="limit is 0"):
        SwiGLU(limit=0.0)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_layer_is_named():
    matrix = torch.zeros(4, 2)
    with pytest.raises(ShapeError, match=r"gate_up has shape \[4, 2\]; \[E, 2 F, D\]"):
        ExpertWeights(gate_up=matrix, down=matrix)
    with pytest.raises(ShapeError, match=r"gate_up has shape \[0, 4, 2\]; .* E of 1 or more"):
        ExpertWeights(gate_up=torch.zeros(0, 4, 2), down=torch.zeros(0, 2, 2))
    with pytest.raises(ShapeError, match=r"gate_up has shape \[4\]; an even second dimension"):
        interleave_halves(torch.zeros(4))
